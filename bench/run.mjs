// The same agent turn (memory, two model calls, one tool call) on the built server and on bare loops over the MCP SDK,
// one after another against the same stand-ins; prints a table with ratios to the first bare loop.
//   npm run bench [-- --seconds 4]
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load } from './load.mjs';
import { treeUsage } from './proc.mjs';

const MAX_SECONDS = 10;
const START_MS = 20_000;
const QUESTION = "What's the weather like in Seattle today?";
const EXPECT = 'partly cloudy';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values: args } = parseArgs({ options: { seconds: { type: 'string', default: '4' } } });
const seconds = Math.min(Number(args.seconds), MAX_SECONDS);
const home = mkdtempSync(join(tmpdir(), 'tenon-bench-'));
const running = new Set();

function start(command, env = {}) {
  const child = spawn(process.execPath, command, {
    cwd: home,
    env: { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENON_'))), ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

async function stop(child) {
  if (!running.has(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

/** Starts a program of this folder that prints its address as its first line. */
async function startScript(name, ...options) {
  const started = performance.now();
  const child = start([join(root, 'bench', name), ...options]);
  const line = await Promise.race([once(createInterface(child.stdout), 'line'), once(child, 'exit')]);
  if (typeof line[0] !== 'string') throw new Error(`${name} did not start`);
  return { child, url: JSON.parse(line[0]).url, coldStartMs: performance.now() - started };
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function post(url, body) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${url}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

async function startTenon(llm, mcp) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = performance.now();
  const child = start([join(root, 'dist/main.js'), 'serve'], {
    XDG_CONFIG_HOME: join(home, 'config'),
    TENON_PORT: String(port),
    TENON_DATA_DIR: join(home, 'data'),
    TENON_KEY_FILE: join(home, 'master.key'),
    TENON_LOG_LEVEL: 'info',
  });
  child.stdout.resume();
  while (!(await fetch(`${url}/healthz`).catch(() => undefined))?.ok) {
    if (performance.now() - started > START_MS || child.exitCode !== null) throw new Error('the server did not start');
    await sleep(5);
  }
  const coldStartMs = performance.now() - started;
  const ml = `${url}/_plugins/_ml`;
  const { model_id } = await post(`${ml}/models/_register?deploy=true`, {
    name: 'bench',
    function_name: 'remote',
    connector: {
      name: 'bench model',
      version: 1,
      protocol: 'http',
      credential: { key: 'bench' },
      actions: [
        {
          action_type: 'predict',
          method: 'POST',
          url: llm,
          headers: { Authorization: 'Bearer ${credential.key}' },
          request_body: '{"model":"bench","messages":[{"role":"user","content":"${parameters.prompt}"}]}',
        },
      ],
    },
  });
  const connector = { name: 'bench', version: 1, protocol: 'mcp_streamable_http', url: mcp };
  const { connector_id } = await post(`${ml}/connectors/_create`, connector);
  const { agent_id } = await post(`${ml}/agents/_register`, {
    name: 'bench',
    type: 'conversational',
    llm: { model_id },
    tools: [{ type: 'MCPTool', parameters: { connector_id } }],
  });
  const turnUrl = `${ml}/agents/${agent_id}/_execute`;
  return { child, coldStartMs, turnUrl, body: { parameters: { question: QUESTION } } };
}

async function measure(name, starting) {
  const { child, coldStartMs, url, turnUrl = url, body = { message: QUESTION } } = await starting;
  const target = { url: turnUrl, body: JSON.stringify(body), expect: EXPECT, pid: child.pid };
  const first = await post(turnUrl, body);
  if (!JSON.stringify(first).includes(EXPECT)) throw new Error(`${name}: unexpected answer ${JSON.stringify(first)}`);
  await sleep(1000);
  const idleMb = treeUsage(child.pid).rssMb;
  await load({ ...target, connections: 4, seconds: Math.min(3, seconds) });
  const one = await load({ ...target, connections: 1, seconds });
  const sixteen = await load({ ...target, connections: 16, seconds });
  await stop(child);
  const failures = one.failures + sixteen.failures;
  if (failures > 0) throw new Error(`${name}: ${failures} turns failed`);
  return { p50: one.p50, rps: sixteen.rps, cpu: sixteen.cpuMs, idleMb, coldStartMs };
}

const COLUMNS = [
  ['p50', 'p50 ms, c1'],
  ['rps', 'turns/s, c16'],
  ['cpu', 'CPU ms a turn, c16'],
  ['idleMb', 'idle MB'],
  ['coldStartMs', 'cold start ms'],
];

function table(results) {
  const [[, reference]] = results;
  const row = (cells) => `| ${cells.join(' | ')} |`;
  const digits = (value) => value.toFixed(value < 10 ? 2 : 0);
  console.log(row(['', ...COLUMNS.map(([, title]) => title)]));
  console.log(row(Array.from({ length: COLUMNS.length + 1 }, () => '---')));
  for (const [name, result] of results) {
    console.log(row([name, ...COLUMNS.map(([key]) => digits(result[key]))]));
    if (result === reference) continue;
    console.log(row(['… as a ratio', ...COLUMNS.map(([key]) => `×${(result[key] / reference[key]).toFixed(2)}`)]));
  }
}

async function bench() {
  execFileSync(process.execPath, [join(root, 'scripts/build.mjs')], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const llm = `${(await startScript('llm-mock.mjs')).url}/v1/chat/completions`;
  const mcp = (await startScript('mcp-server.mjs')).url;
  const bare = ['--llm', llm, '--mcp', `${mcp}/mcp`];
  console.log(`Node ${process.version}, ${cpus().length} cores, ${seconds} s a measurement\n`);
  table([
    ['bare loop, SDK over fetch', await measure('bare loop', startScript('bare-loop.mjs', ...bare))],
    ['bare loop, SDK over undici', await measure('thin loop', startScript('bare-loop.mjs', ...bare, '--thin'))],
    ['Tenon', await measure('Tenon', startTenon(llm, mcp))],
  ]);
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
});
await bench();
process.exit(0);
