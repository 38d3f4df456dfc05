import { execFileSync } from 'node:child_process';

const MINIMUM_MODULES = 40;
let output;
try {
  output = execFileSync('npx', ['depcruise', 'src', '--config', '.dependency-cruiser.cjs', '--output-type', 'json'], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
} catch (error) {
  output = error.stdout;
}
const { summary } = JSON.parse(output);
for (const { rule, from, to } of summary.violations) console.error(`${rule.name}: ${from} -> ${to}`);
if (summary.totalCruised < MINIMUM_MODULES) {
  console.error(`only ${summary.totalCruised} modules were cruised; at least ${MINIMUM_MODULES} are expected`);
  process.exit(1);
}
if (summary.violations.length > 0) process.exit(1);
console.log(`direction: ${summary.totalCruised} modules, no violation`);
