import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

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

/** Runs the demo with an empty home and a temporary folder of its own; Ctrl-C once its output holds `interruptAt`. */
async function runDemo(interruptAt?: string): Promise<Ended> {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, ['--import', 'tsx', 'demo/main.ts'], {
    cwd: root,
    env: { PATH, HOME: home, TMPDIR: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const before = output;
    output += text;
    if (interruptAt && output.includes(interruptAt) && !before.includes(interruptAt)) child.kill('SIGINT');
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

async function expectNothingLeft({ output }: Ended): Promise<void> {
  const ports = new Set([...output.matchAll(/http:\/\/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port)));
  expect(ports.size).toBeGreaterThanOrEqual(4);
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
    const ended = await runDemo('Register an agent');
    expect(ended.code).toBe(130);
    expect(ended.output).not.toContain('Agent: ');
    await expectNothingLeft(ended);
  });
});
