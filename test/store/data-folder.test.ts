import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import { claimFolder } from '../../src/store/data-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const CLAIM = `
import { claimFolder } from './src/store/data-folder.ts';
const claim = claimFolder(process.argv[1]);
console.log(claim.alone);
setInterval(() => claim, 1000);
`;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-claim-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it('a folder is free again when its process was killed', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', CLAIM, folder], { cwd: root });
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  expect(said.toString()).toBe('true\n');
  const beside = claimFolder(folder);
  expect(beside.alone).toBe(false);
  beside.release();
  child.kill('SIGKILL');
  await once(child, 'close');
  const after = claimFolder(folder);
  expect(after.alone).toBe(true);
  after.release();
});

it('a folder that is not there stops the start', () => {
  expect(() => claimFolder(join(folder, 'none'))).toThrow(StartupError);
});
