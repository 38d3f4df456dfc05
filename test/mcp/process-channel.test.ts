import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callTool, failureOf, isAlive, type ProcessRig, processRig, SERVER, textOf } from './process-rig.ts';

let rig: ProcessRig;
beforeEach(() => {
  rig = processRig();
});
afterEach(() => rig.dispose());

type Opened = Awaited<ReturnType<ProcessRig['open']>>;

async function jsonOf(opened: Opened, tool: string, values: object = {}) {
  return JSON.parse(textOf(await callTool(opened, tool, values)));
}

describe('messages of a local server', () => {
  it('are exchanged: tools are listed, called, pinged', async () => {
    const opened = await rig.open([SERVER]);
    expect(opened.session.protocolVersion).toBe('2025-11-25');
    expect(opened.answer.entries).toContainEqual(expect.objectContaining({ name: 'echo', description: 'Does echo.' }));
    expect(await jsonOf(opened, 'echo', { town: 'Zürich' })).toEqual({ town: 'Zürich' });
    expect(await opened.session.ping(5000)).toBe('pong');
    expect(opened.session.deviations()).toEqual([]);
  });

  it('are not lost for one tool whose definition is odd', async () => {
    const { answer } = await rig.open([SERVER]);
    expect(answer.entries).toContainEqual({ name: 'without a schema', inputSchema: 5 });
  });

  it('keep the digits of arguments, and stay one line when the arguments were several', async () => {
    const opened = await rig.open([SERVER]);
    const line = textOf(await callTool(opened, 'raw', '{\r\n  "amount": 12345678901234567890.10\n}'));
    expect(line).toMatch(/"arguments":\{ +"amount": 12345678901234567890\.10 +\}/);
  });

  it('arrive whole when written octet by octet with CRLF', async () => {
    const opened = await rig.open([SERVER, '--split', '--crlf']);
    expect(await jsonOf(opened, 'echo', { text: '日本 🌋 é' })).toEqual({ text: '日本 🌋 é' });
  });

  it('are understood in a batch, with the id as text; a reply to nobody is no harm', async () => {
    const opened = await rig.open([SERVER]);
    expect(await jsonOf(opened, 'odd', { a: 1 })).toEqual({ a: 1 });
    expect(await jsonOf(opened, 'echo', { a: 2 })).toEqual({ a: 2 });
  });

  it('may be as long as 8 MiB; a longer one ends the process and names the limit', async () => {
    const opened = await rig.open([SERVER]);
    const { pid } = await jsonOf(opened, 'facts');
    const large = await callTool(opened, 'huge', { mebibytes: 7 });
    expect(textOf(large)).toHaveLength(7 * 1024 * 1024);
    expect(large.bytes).toBeGreaterThan(7 * 1024 * 1024);
    const error = await failureOf(callTool(opened, 'huge', { mebibytes: 9 }));
    expect(error).toMatchObject({ code: 'invalid_response', delivered: 'unknown' });
    expect(error.message).toContain('sent a message larger than 8 MiB on one line');
    await rig.settled();
    expect(isAlive(-pid)).toBe(false);
  });

  it('of its own are answered', async () => {
    const opened = await rig.open([SERVER]);
    expect(await jsonOf(opened, 'ask')).toEqual({});
  });

  it('tell of a changed list', async () => {
    const opened = await rig.open([SERVER]);
    expect(textOf(await callTool(opened, 'change'))).toBe('changed');
    expect(rig.listChanges()).toBe(1);
  });

  it('stop when the caller goes: the server is told, and its late reply is dropped', async () => {
    const opened = await rig.open([SERVER]);
    const caller = new AbortController();
    const call = callTool(opened, 'hang', {}, { signal: caller.signal });
    expect(await jsonOf(opened, 'cancelled')).toEqual([]);
    caller.abort(new Error('gone'));
    await expect(call).rejects.toThrow('gone');
    expect(await jsonOf(opened, 'cancelled')).toHaveLength(1);
  });

  it('that wait for a server which does not read were not delivered', async () => {
    const opened = await rig.open([SERVER]);
    const { pid } = await jsonOf(opened, 'facts');
    const calls = [callTool(opened, 'deaf'), callTool(opened, 'echo', { text: 'x'.repeat(4_000_000) })];
    const failures = [...calls, callTool(opened, 'echo')].map(failureOf);
    await expect.poll(() => rig.stderr()).toEqual(['deaf']);
    process.kill(pid, 'SIGKILL');
    const [deaf, partly, waiting] = await Promise.all(failures);
    expect(deaf).toMatchObject({ code: 'process_exited', delivered: 'unknown' });
    expect(partly).toMatchObject({ code: 'process_exited', delivered: 'unknown' });
    expect(waiting).toMatchObject({ code: 'process_exited', delivered: 'no' });
    expect(waiting?.message).toContain('was ended by signal SIGKILL');
  });
});

describe('what a local server writes beside its messages', () => {
  it('is skipped on its standard output, and said once', async () => {
    const noise = 'Server 1.2 starting\\n{not json}\\n[1]\\n\\r\\n42\\n';
    const opened = await rig.open([SERVER, `--noise=${noise}`, '--noise-lines=3']);
    expect(await jsonOf(opened, 'echo', { a: 1 })).toEqual({ a: 1 });
    expect(opened.session.deviations()).toEqual([
      'the server writes text that is not JSON to its standard output',
      'the server writes JSON that is no message of the protocol to its standard output',
    ]);
    const warnings = rig.lines.filter((line) => line.includes('not JSON'));
    expect(warnings).toHaveLength(1);
    expect(JSON.parse(warnings[0] ?? '')).toMatchObject({
      level: 'warn',
      msg: expect.stringContaining('connector "local"'),
    });
    expect(warnings[0]).toContain('Server 1.2 starting');
  });

  it('ends the process when it is a flood', async () => {
    const error = await failureOf(rig.open([SERVER, '--noise-lines=120000']));
    expect(error).toMatchObject({ code: 'invalid_response' });
    expect(error.message).toContain('floods its standard output with what nobody asked for');
  });

  it('is read from its standard error whatever the amount, and only the end is kept', async () => {
    const opened = await rig.open([SERVER, '--stderr-bytes=2000000']);
    expect(await jsonOf(opened, 'echo', { a: 1 })).toEqual({ a: 1 });
    await expect.poll(() => rig.stderr().join('').length).toBe(501);
  });

  it('is shown without secrets and control characters', async () => {
    rig.taint(['s3cr3t-value-of-the-key']);
    await rig.open([SERVER, '--stderr=\u001b[31mkey s3cr3t-value-of-the-key\u001b[0m\u0007 \u202erefused\nmore\n']);
    await expect.poll(() => rig.stderr()).toEqual(['key [redacted] refused', 'more']);
  });

  it('ends the process when it asks without end', async () => {
    const opened = await rig.open([SERVER]);
    const error = await failureOf(callTool(opened, 'asks', { count: 1500 }));
    expect(error).toMatchObject({ code: 'invalid_response' });
    expect(error.message).toContain('made more than 1000 requests of its own within a minute');
  });

  it('ends the process when it does not read the answers to what it asks', async () => {
    const opened = await rig.open([SERVER]);
    const error = await failureOf(callTool(opened, 'asks', { count: 100, size: 100_000 }));
    expect(error).toMatchObject({ code: 'invalid_response' });
    expect(error.message).toContain('makes requests of its own and does not read the answers');
  });
});

describe('the process of a local server', () => {
  it('has the environment it is given and nothing else', async () => {
    const environment = { PATH: process.env.PATH ?? '', TOKEN: 'a;b $HOME' };
    const opened = await rig.open([SERVER], { environment });
    expect(await jsonOf(opened, 'environment')).toEqual(environment);
  });

  it('has exactly the arguments and the folder it is given', async () => {
    const given = ['--x=$HOME', 'a;b', '*', '', '`id`', 'ü', 'two words'];
    const opened = await rig.open([SERVER, ...given], { cwd: '/' });
    expect(await jsonOf(opened, 'facts')).toMatchObject({ argv: given, cwd: '/' });
  });

  it.each([
    ['--discover=error', '2025-11-25'],
    ['--discover=exit', '2025-11-25'],
    ['--discover=stateless', '2026-07-28'],
  ])('is spoken to in its own era: %s', async (flag, version) => {
    const opened = await rig.open([SERVER, flag]);
    expect(opened.session.protocolVersion).toBe(version);
    expect(await jsonOf(opened, 'echo', { a: 1 })).toEqual({ a: 1 });
    expect(rig.gone).toEqual([]);
  });

  it('is asked for the session era when it keeps silent about the other one', async () => {
    const opened = await rig.open([SERVER, '--discover=silent'], { config: { connection_timeout: 1 } });
    expect(opened.session.protocolVersion).toBe('2025-11-25');
    expect(await jsonOf(opened, 'echo', { a: 1 })).toEqual({ a: 1 });
  });
});
