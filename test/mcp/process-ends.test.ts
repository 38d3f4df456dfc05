import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callTool, failureOf, isAlive, PLAIN, type ProcessRig, processRig, SERVER, textOf } from './process-rig.ts';

let rig: ProcessRig;
let folder: string;
beforeEach(async () => {
  rig = processRig();
  folder = await mkdtemp(join(tmpdir(), 'tenon-process-'));
});
afterEach(async () => {
  await rig.dispose();
  await rm(folder, { recursive: true, force: true });
});

type Opened = Awaited<ReturnType<ProcessRig['open']>>;

async function factsOf(opened: Opened): Promise<{ pid: number; grandchild: number }> {
  return JSON.parse(textOf(await callTool(opened, 'facts')));
}

describe('a local server that cannot be started', () => {
  it.each([
    [
      'a command that is nowhere in PATH',
      { command: 'no-such-command' },
      'the command "no-such-command" is not in the PATH',
    ],
    ['a path that does not exist', { command: '/no/such/bin' }, 'the command "/no/such/bin" does not exist'],
    [
      'a folder that does not exist',
      { cwd: '/does/not/exist' },
      'its working directory /does/not/exist does not exist',
    ],
    ['a folder that is none', { cwd: SERVER }, 'is not a directory'],
    ['a command that is a folder', { command: '/usr' }, 'the command "/usr" is not a program this server may run'],
  ])('names what is wrong: %s', async (_what, options, expected) => {
    const error = await failureOf(rig.open([SERVER], options));
    expect(error).toMatchObject({ code: 'spawn_failed', delivered: 'no', retryable: false, attempts: 1 });
    expect(error.message).toMatch(/^connector "local" \(command "[^"]*"\) could not be started: /);
    expect(error.message).toContain(expected);
    expect(error.remedy).toMatch(/configuration file|Make the file executable/);
  });

  it('names an interpreter that is not there', async () => {
    const script = join(folder, 'server');
    await writeFile(script, '#!/no/such/interpreter\n');
    await chmod(script, 0o755);
    const error = await failureOf(rig.open([], { command: script }));
    expect(error.message).toContain('names an interpreter in its first line that does not exist');
  });

  it('tells the code and the end of its standard error when it exits at once, after one start more for the other era', async () => {
    const log = join(folder, 'starts');
    const script = `require('fs').appendFileSync(${JSON.stringify(log)}, 'x'); console.error('bad key'); process.exit(3)`;
    const error = await failureOf(rig.open(['-e', script], { config: { max_retry_times: 3 } }));
    expect(error).toMatchObject({ code: 'process_exited', attempts: 1 });
    expect(error.message).toBe(
      `connector "local" (command "${process.execPath}") exited with code 3 before the connection was made; its standard error ends with "bad key"`,
    );
    expect(rig.stderr()).toEqual(['bad key']);
    expect(await readFile(log, 'utf8')).toBe('xx');
  });

  it('tells the error of a program that throws, not the end of its stack', async () => {
    const error = await failureOf(rig.open(['-e', "throw new TypeError('the port is taken')"]));
    expect(error.message).toContain('its standard error ends with "TypeError: the port is taken"');
  });

  it('says so when it wrote nothing', async () => {
    const error = await failureOf(rig.open(['-e', 'process.exit(0)']));
    expect(error.message).toContain(
      'exited with code 0 before the connection was made and wrote nothing to its standard error',
    );
  });

  it('times out when it says nothing, and is ended', async () => {
    const script = `require('fs').writeFileSync(${JSON.stringify(join(folder, 'pid'))}, String(process.pid)); process.stdin.resume()`;
    const error = await failureOf(rig.open(['-e', script], { config: { connection_timeout: 1 } }));
    expect(error).toMatchObject({ code: 'response_timeout', retryable: true });
    expect(error.message).toContain('did not answer initialize within 1 s');
    await rig.settled();
    expect(isAlive(-Number(await readFile(join(folder, 'pid'), 'utf8')))).toBe(false);
  });

  it('is ended when the attempt is given up', async () => {
    const attempt = new AbortController();
    const opening = rig.open(['-e', "console.error('up'); process.stdin.resume()"], { signal: attempt.signal });
    opening.catch(() => undefined);
    await expect.poll(() => rig.stderr()).toEqual(['up']);
    attempt.abort(new Error('given up'));
    await expect(opening).rejects.toThrow('was ended by this server before it answered');
    await rig.settled();
  });
});

describe('a local server that ends by itself', () => {
  it('fails every call under way at once, and is told of once', async () => {
    const opened = await rig.open([SERVER]);
    const { pid } = await factsOf(opened);
    const hanging = failureOf(callTool(opened, 'hang'));
    const error = await failureOf(callTool(opened, 'crash', { code: 9, last: 'first\nout of memory\n' }));
    for (const failed of [error, await hanging]) {
      expect(failed).toMatchObject({ code: 'process_exited', delivered: 'unknown', retryable: false, statusCode: 502 });
      expect(failed.message).toContain('exited with code 9; its standard error ends with "out of memory"');
    }
    expect(rig.gone).toHaveLength(1);
    expect(rig.gone[0]).toMatchObject({ code: 'process_exited' });
    expect(await failureOf(callTool(opened, 'echo'))).toMatchObject({ code: 'process_exited', delivered: 'no' });
    expect(await failureOf(opened.session.ping(1000))).toMatchObject({ code: 'process_exited' });
    await opened.session.close();
    expect(rig.gone).toHaveLength(1);
    expect(isAlive(-pid)).toBe(false);
  });

  it('is started anew when it ends while its tools are listed', async () => {
    const opened = await rig.open([SERVER, `--list-mark=${join(folder, 'mark')}`], { config: { max_retry_times: 1 } });
    expect(opened.answer.entries.length).toBeGreaterThan(5);
    expect(textOf(await callTool(opened, 'echo', { a: 1 }))).toBe('{"a":1}');
  });

  it('has its last reply delivered', async () => {
    const opened = await rig.open([SERVER]);
    expect(textOf(await callTool(opened, 'last', { a: 1 }))).toBe('{"a":1}');
    await expect.poll(() => rig.gone).toHaveLength(1);
    expect(rig.gone[0]?.message).toContain('exited with code 0 and wrote nothing to its standard error');
  });

  it('leaves no descendant, whatever that one ignores', async () => {
    const opened = await rig.open([SERVER, '--grandchild']);
    const { pid, grandchild } = await factsOf(opened);
    expect(isAlive(grandchild)).toBe(true);
    expect(await failureOf(callTool(opened, 'crash'))).toMatchObject({ code: 'process_exited' });
    await rig.settled();
    expect(isAlive(grandchild)).toBe(false);
    expect(isAlive(-pid)).toBe(false);
  });

  it.each([
    ['--close-stdout', 'closed its standard output'],
    ['--close-stdin', 'does not read its standard input any more'],
  ])('is not waited for when only its pipe is gone: %s', async (flag, expected) => {
    const opened = await rig.open([SERVER, '--stay', flag]);
    const { pid } = await factsOf(opened);
    const closing = failureOf(callTool(opened, 'close'));
    await expect.poll(() => rig.stderr()).toEqual(['closed']);
    // That a pipe takes nothing more shows when something is written to it.
    if (flag === '--close-stdin') callTool(opened, 'echo').catch(() => undefined);
    const error = await closing;
    expect(error).toMatchObject({ code: 'stream_broken', delivered: 'unknown' });
    expect(error.message).toContain(expected);
    expect(rig.gone).toHaveLength(1);
    process.kill(pid, 'SIGKILL');
    await rig.settled();
  });
});

describe('a local server that is ended', () => {
  it('goes when its standard input ends, and is not told of', async () => {
    const opened = await rig.open([SERVER]);
    const { pid } = await factsOf(opened);
    const hanging = failureOf(callTool(opened, 'hang'));
    await opened.session.close();
    expect(isAlive(-pid)).toBe(false);
    expect(await hanging).toMatchObject({ code: 'stream_broken', delivered: 'unknown' });
    expect(rig.gone).toEqual([]);
  });

  it('is asked with SIGTERM when it stays', async () => {
    const opened = await rig.open([SERVER, '--stay']);
    const { pid } = await factsOf(opened);
    await opened.session.close();
    expect(isAlive(-pid)).toBe(false);
  });

  it('is killed with its descendants when it ignores SIGTERM', async () => {
    const opened = await rig.open([SERVER, '--stay', '--ignore-sigterm', '--grandchild']);
    const { pid, grandchild } = await factsOf(opened);
    await opened.session.close();
    expect(isAlive(-pid)).toBe(false);
    expect(isAlive(grandchild)).toBe(false);
  }, 15_000);

  it('is gone before the next process of the connector starts', async () => {
    const first = await rig.open([SERVER, '--stay']);
    const { pid } = await factsOf(first);
    const closing = first.session.close();
    const second = await rig.open([SERVER]);
    expect(isAlive(-pid)).toBe(false);
    expect((await factsOf(second)).pid).not.toBe(pid);
    await closing;
  });
});

describe('local servers at the end of the program', () => {
  it('are killed at once when everything is closed', async () => {
    const opened = await rig.open([SERVER, '--stay', '--ignore-sigterm', '--grandchild']);
    const { pid, grandchild } = await factsOf(opened);
    await rig.dispose();
    expect(isAlive(-pid)).toBe(false);
    expect(isAlive(grandchild)).toBe(false);
    expect(await failureOf(rig.open([SERVER]))).toMatchObject({ code: 'spawn_failed' });
  });

  it('are killed when it exits without closing anything', async () => {
    const module = fileURLToPath(new URL('../../src/mcp/process/local-process.ts', import.meta.url));
    const server = {
      command: process.execPath,
      args: [SERVER, '--stay', '--ignore-sigterm'],
      environment: PLAIN,
      cwd: '/',
    };
    const script = `
      const { createLocalProcesses } = await import(${JSON.stringify(module)});
      const { pid } = await createLocalProcesses().start('local', ${JSON.stringify(server)});
      process.stdout.write(String(pid), () => process.exit(0));
    `;
    const program = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let written = '';
    program.stdout.on('data', (chunk) => {
      written += chunk;
    });
    await once(program, 'close');
    expect(Number(written)).toBeGreaterThan(1);
    await expect.poll(() => isAlive(-Number(written))).toBe(false);
  });
});
