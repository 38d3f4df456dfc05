import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { StartupError } from '../src/errors.ts';
import { makeFolder } from '../src/folder.ts';

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'tenon-folder-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('a folder', () => {
  it('is made with those above it, once and again', () => {
    const path = join(root, 'a/b/c');
    for (const _time of [1, 2]) makeFolder(path);
    for (const made of [path, join(root, 'a')]) expect(statSync(made).mode & 0o777).toBe(0o700);
  });
  it('is not made below a file, nor in its place', () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    expect(() => makeFolder(join(file, 'x/y'))).toThrow('ENOTDIR');
    expect(() => makeFolder(file)).toThrow('EEXIST');
  });
  it.runIf(process.platform === 'linux')('is refused where the file system takes none', () => {
    expect(() => makeFolder('/proc/nope/deeper')).toThrow(/ENOENT|EACCES|EPERM/);
  });
});

it.runIf(process.platform === 'linux').each(['TENON_DATA_DIR', 'TENON_LOG_FILE', 'TENON_KEY_FILE'])(
  'a server does not start with a %s below /proc',
  async (name) => {
    const own = {
      TENON_DATA_DIR: join(root, name),
      TENON_KEY_FILE: join(root, 'key', name),
      TENON_LOG_LEVEL: 'silent',
    };
    const config = readConfig({ ...own, [name]: '/proc/nope/x' });
    const started = buildApp(config);
    await expect(started).rejects.toThrow(StartupError);
    await expect(started).rejects.toThrow('/proc/nope');
  },
);
