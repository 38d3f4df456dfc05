import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const WARN = 300;
const FAIL = 500;
const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'src', 'test', 'demo', 'bench', 'scripts'],
  {
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((name) => /\.(ts|tsx|mjs)$/.test(name));
let failed = false;
for (const name of files) {
  let lines;
  try {
    lines = readFileSync(name, 'utf8').split('\n').length;
  } catch {
    continue;
  }
  if (lines > FAIL) {
    failed = true;
    console.error(`${name}: ${lines} lines, more than ${FAIL}`);
  } else if (lines > WARN && name.startsWith('src/')) {
    console.log(`${name}: ${lines} lines; more than ${WARN} is a question`);
  }
}
if (failed) process.exit(1);
