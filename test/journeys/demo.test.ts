import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../demo/client.ts';
import { startStandIn } from '../../demo/model.ts';
import { OFF_SCRIPT } from '../../demo/stand-in.ts';
import { startWeatherServer } from '../../demo/weather-server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let home: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'tenon-demo-test-'));
});
afterAll(async () => {
  await rm(home, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

interface DemoOptions {
  readonly args?: readonly string[];
  /** By `npm run demo`, through the processes that npm puts in between. */
  readonly npm?: boolean;
  /** Once its output holds this text, `act` is done to the process that was started; by default Ctrl-C. */
  readonly at?: string;
  readonly act?: (child: ChildProcessByStdio<null, Readable, Readable>) => void;
}

/** Runs the demo with an empty home and a temporary folder of its own, until nobody writes to its output any more. */
async function runDemo(options: DemoOptions = {}): Promise<Ended> {
  const { args = [], npm = false, at: interruptAt, act = (started) => started.kill('SIGINT') } = options;
  const { PATH = '' } = process.env;
  const [program, ...start] = npm
    ? ['npm', 'run', '--silent', 'demo', '--']
    : [process.execPath, '--import', 'tsx', 'demo/main.ts'];
  const child = spawn(program ?? '', [...start, ...args], {
    cwd: root,
    env: { PATH, HOME: home, TMPDIR: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const before = output;
    output += text;
    if (interruptAt && output.includes(interruptAt) && !before.includes(interruptAt)) act(child);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output, errors };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function expectNothingLeft({ output }: Ended, servers = 4): Promise<void> {
  const ports = new Set([...output.matchAll(/http:\/\/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port)));
  expect(ports.size).toBeGreaterThanOrEqual(servers);
  for (const port of ports) expect(await isListening(port), `port ${port}`).toBe(false);
  expect((await readdir(home)).filter((name) => name.startsWith('tenon-'))).toEqual([]);
}

describe('npm run demo', () => {
  it.each(['the first time', 'a second time'])('shows the whole way from connector to answer, %s', async () => {
    const ended = await runDemo();
    expect(ended.errors).toBe('');
    expect(ended.code).toBe(0);
    const { output } = ended;
    expect(output).toMatch(/"connector_id": "[0-9A-Za-z]{20}"/);
    expect(output).toMatch(/"model_id": "[0-9A-Za-z]{20}"/);
    expect(output).toMatch(/"agent_id": "[0-9A-Za-z]{20}"/);
    expect(output).toContain('"X-Weather-API-Key": "${credential.api_key}"');
    expect(output).toContain("User:  What's the weather like in Seattle today?");
    expect(output).toMatch(/\[agent called (weather_)?get_current_weather over MCP\]/);
    expect(output).toMatch(/^Agent: .*Seattle: partly cloudy, 68°F/m);
    expect(output).toContain('"status": "connected"');
    expect(output).toContain('"type": "McpStreamableHttpTool"');
    expect(output).toContain('"code": "connection_refused"');
    expect(output.match(/^(sed .*)?curl -s .*'http:/gm)?.length).toBeGreaterThanOrEqual(10);
    await expectNothingLeft(ended);
  });

  it('cleans up when it is interrupted in the middle', async () => {
    const ended = await runDemo({ at: 'Register an agent' });
    expect(ended.code).toBe(130);
    expect(ended.output).not.toContain('Agent: ');
    await expectNothingLeft(ended);
  });

  it('cleans up and ends when its output is closed, as by head', async () => {
    const ended = await runDemo({ at: 'Language model:', act: ({ stdout }) => stdout.destroy() });
    expect(ended).toMatchObject({ code: 0, errors: '' });
    await expectNothingLeft(ended, 3);
  });

  it('cleans up when npm is killed', async () => {
    const ended = await runDemo({ npm: true, args: ['--keep'], at: 'stays up', act: (npm) => npm.kill('SIGKILL') });
    expect(ended.code).toBe(null);
    await expectNothingLeft(ended);
  });

  it('lists its options', async () => {
    expect(await runDemo({ args: ['--help'] })).toMatchObject({ code: 0, output: expect.stringMatching(/^Usage: /) });
    const { code, errors } = await runDemo({ args: ['--peer'] });
    expect(code).toBe(1);
    expect(errors).toContain('--help');
  });

  it('names a port that is taken and what to do about it', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { code, errors } = await runDemo({ args: ['--peers', '--port', String(port)] });
    server.close();
    expect(code).toBe(1);
    expect(errors).toContain(`port ${port} of 127.0.0.1 is taken`);
    expect(errors).toContain('--port <first>');
  });
});

describe('the stand-in for a language model', () => {
  const tools = [{ type: 'function', function: { name: 'get_current_weather' } }];

  async function answerTo(messages: object[], offered: object[] = tools): Promise<Json> {
    const model = await startStandIn();
    try {
      const answer = await fetch(model.chatUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'stand-in', messages, ...(offered.length > 0 && { tools: offered }) }),
      });
      const { choices } = (await answer.json()) as { choices: [{ message: Json }] };
      return choices[0].message;
    } finally {
      await model.close();
    }
  }
  const ask = (content: string, offered?: object[]) => answerTo([{ role: 'user', content }], offered);

  it.each([
    ["What's the weather like in Seattle today?", 'Seattle'],
    ['What is the weather in Paris?', 'Paris'],
    ['And in New York?', 'New York'],
    ['Tell me about São Paulo.', 'São Paulo'],
  ])('asks the weather tool about the place of the question: %s', async (question, location) => {
    const { tool_calls: calls } = await ask(question);
    expect(calls).toMatchObject([{ function: { name: 'get_current_weather' } }]);
    expect(JSON.parse((calls as [{ function: { arguments: string } }])[0].function.arguments)).toEqual({ location });
  });

  it.each(['Tell me a joke', 'What is the weather?', 'What did I ask in my last question?'])(
    'says what it is and what to ask: %s',
    async (question) => {
      expect((await ask(question)).content).toBe(OFF_SCRIPT);
    },
  );

  it('says so when it has no tool', async () => {
    expect((await ask('What is the weather in Paris?', [])).content).toContain('no tool');
  });

  it('repeats what the tool of this turn said, whatever earlier turns held', async () => {
    const call = { id: 'c1', type: 'function', function: { name: 'get_current_weather', arguments: '{}' } };
    const turn = [
      { role: 'user', content: 'What is the weather in Paris?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: 'Paris: rain' },
    ];
    expect((await answerTo(turn)).content).toBe('The weather tool says: Paris: rain');
    const later = [...turn, { role: 'assistant', content: 'Rain.' }, { role: 'user', content: 'And tomorrow?' }];
    expect((await answerTo(later)).content).toBe(OFF_SCRIPT);
  });
});

it('the weather server answers at /mcp only, and only with the key', async () => {
  const weather = await startWeatherServer({ apiKey: 'a-key' });
  const statusOf = async (path: string, key: string): Promise<number> =>
    (await fetch(`${weather.url}${path}`, { method: 'POST', headers: { 'x-weather-api-key': key } })).status;
  try {
    expect(await statusOf('/', 'a-key')).toBe(404);
    expect(await statusOf('/mcp/more', 'a-key')).toBe(404);
    expect(await statusOf('/mcp', 'another')).toBe(401);
    expect([401, 404]).not.toContain(await statusOf('/mcp', 'a-key'));
  } finally {
    await weather.close();
  }
});
