import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { openPool, type Pool } from './pool.ts';
import { failureOf, isAlive, SERVER, textOf } from './process-rig.ts';

let pool: Pool;
let folder: string;
beforeEach(async () => {
  pool = await openPool();
  folder = await mkdtemp(join(tmpdir(), 'tenon-process-faults-'));
});
afterEach(async () => {
  await pool.dispose();
  await rm(folder, { recursive: true, force: true });
});

async function factsOf(name: string): Promise<{ pid: number; grandchild: number }> {
  return JSON.parse(textOf(await pool.call(name, 'facts')));
}

describe('a local server that exits at its start', () => {
  it('is failed with its exit code and standard error, others go on, and it recovers by itself at the next use', async () => {
    const switched = join(folder, 'works-now');
    const script = `require('fs').existsSync(${JSON.stringify(switched)}) ? import(${JSON.stringify(SERVER)}) : (console.error('bad key'), process.exit(3))`;
    pool.addLocal('broken', ['-e', script]);
    pool.addLocal('sound', [SERVER]);
    const error = await failureOf(pool.call('broken', 'echo'));
    expect(error).toMatchObject({ code: 'process_exited', delivered: 'no', statusCode: 502 });
    const report = await pool.sessions.report('broken');
    expect(report).toMatchObject({
      status: 'failed',
      transport: 'local',
      tool_count: 0,
      stderr: ['bad key'],
      error: {
        code: 'process_exited',
        message: expect.stringContaining('exited with code 3'),
        remedy: expect.any(String),
      },
    });
    expect(textOf(await pool.call('sound', 'echo', { a: 1 }))).toBe('{"a":1}');
    await writeFile(switched, '');
    expect(textOf(await pool.call('broken', 'echo', { a: 2 }))).toBe('{"a":2}');
    expect(await pool.sessions.report('broken')).toMatchObject({ status: 'connected', breaker: { state: 'closed' } });
  });

  it('is started no more often than its breaker allows', async () => {
    const starts = join(folder, 'starts');
    const script = `require('fs').appendFileSync(${JSON.stringify(starts)}, 'x'); process.exit(1)`;
    pool.addLocal('broken', ['-e', script]);
    const codes: string[] = [];
    for (let attempt = 0; attempt < 10; attempt += 1) codes.push((await failureOf(pool.call('broken', 'echo'))).code);
    expect(codes).toEqual([...Array(3).fill('process_exited'), ...Array(7).fill('breaker_open')]);
    // Each of the three tried both eras.
    expect(await readFile(starts, 'utf8')).toBe('x'.repeat(6));
    expect(await pool.sessions.report('broken')).toMatchObject({ status: 'failed', breaker: { state: 'open' } });
  });
});

describe('a local server that exits while it works', () => {
  it('is failed before the reply of that call, whose outcome is unknown; the next use starts it anew', async () => {
    pool.addLocal('local', [SERVER]);
    const { pid } = await factsOf('local');
    const hanging = failureOf(pool.call('local', 'hang'));
    await expect.poll(async () => (await pool.sessions.report('local')).stderr).toEqual(['hanging']);
    const error = await failureOf(pool.call('local', 'crash', { code: 9, last: 'out of memory\n' }));
    expect(error).toMatchObject({ code: 'outcome_unknown', delivered: 'unknown' });
    expect(error.message).toContain('exited with code 9; its standard error ends with "out of memory"');
    expect(await pool.sessions.report('local')).toMatchObject({
      status: 'failed',
      error: { code: 'process_exited', next_retry_time: expect.any(Number) },
      stderr: ['hanging', 'out of memory'],
    });
    expect(await hanging).toMatchObject({ code: 'outcome_unknown' });
    const next = await factsOf('local');
    expect(next.pid).not.toBe(pid);
    expect(isAlive(-pid)).toBe(false);
    expect(await pool.sessions.report('local')).toMatchObject({ status: 'connected' });
    expect((await pool.sessions.history('local', 10)).map(({ from, to }) => `${from}>${to}`)).toEqual([
      'connecting>connected',
      'failed>connecting',
      'connected>failed',
      'connecting>connected',
      'idle>connecting',
    ]);
  });

  it('is failed without any call when it exits unasked', async () => {
    pool.addLocal('local', [SERVER]);
    const { pid } = await factsOf('local');
    process.kill(pid, 'SIGKILL');
    await expect.poll(async () => (await pool.sessions.report('local')).status).toBe('failed');
    expect((await pool.sessions.report('local')).error).toMatchObject({
      code: 'process_exited',
      message: expect.stringContaining('was ended by signal SIGKILL'),
    });
  });

  it('has a call repeated once that only reads', async () => {
    pool.addLocal('local', [SERVER, `--mark=${join(folder, 'mark')}`]);
    expect(textOf(await pool.call('local', 'read'))).toBe('read after a crash');
    pool.addLocal('always', [SERVER]);
    expect(await failureOf(pool.call('always', 'read'))).toMatchObject({ code: 'process_exited' });
  });
});

it('a local server that writes garbage works, and its status says so', async () => {
  pool.addLocal('noisy', [SERVER, '--noise=Server 1.2\\n{not json}\\n', '--noise-lines=2']);
  expect(textOf(await pool.call('noisy', 'echo', { a: 1 }))).toBe('{"a":1}');
  expect(await pool.sessions.report('noisy')).toMatchObject({
    status: 'connected',
    warnings: expect.arrayContaining(['the server writes text that is not JSON to its standard output']),
  });
});

it('a local server that ignores SIGTERM, and the process it left behind, are gone when it is disabled', async () => {
  pool.addLocal('stubborn', [SERVER, '--stay', '--ignore-sigterm', '--grandchild']);
  const { pid, grandchild } = await factsOf('stubborn');
  const report = await pool.sessions.act('stubborn', 'disable', OPEN_PRINCIPAL);
  expect(report.status).toBe('disabled');
  expect(isAlive(-pid)).toBe(false);
  expect(isAlive(grandchild)).toBe(false);
  expect(await failureOf(pool.call('stubborn', 'echo'))).toMatchObject({ code: 'disabled' });
}, 15_000);

it('a descendant that outlives its local server is ended, and the server starts anew', async () => {
  pool.addLocal('parent', [SERVER, '--grandchild']);
  const first = await factsOf('parent');
  await failureOf(pool.call('parent', 'crash'));
  const second = await factsOf('parent');
  expect(isAlive(first.grandchild)).toBe(false);
  expect(isAlive(-first.pid)).toBe(false);
  expect(isAlive(second.grandchild)).toBe(true);
});

it('at shutdown every local server ends within the time, whatever it ignores', async () => {
  pool.addLocal('sound', [SERVER]);
  pool.addLocal('stubborn', [SERVER, '--stay', '--ignore-sigterm', '--grandchild']);
  const groups = [await factsOf('sound'), await factsOf('stubborn')];
  const hanging = failureOf(pool.call('sound', 'hang'));
  await expect.poll(async () => (await pool.sessions.report('sound')).stderr).toEqual(['hanging']);
  await pool.sessions.close(100);
  for (const { pid } of groups) expect(isAlive(-pid)).toBe(false);
  expect((await hanging).delivered).toBe('unknown');
}, 15_000);
