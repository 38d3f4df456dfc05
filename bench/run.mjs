// The same agent turn (memory, two model calls, one tool call) on the built server and on bare loops over the MCP SDK,
// one after another against the same stand-ins; prints a table with ratios to the first bare loop.
//   npm run bench [-- --seconds 4]
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { load } from './load.mjs';
import { treeUsage } from './proc.mjs';
import { build, post, startScript, startTenon, stop } from './programs.mjs';

const MAX_SECONDS = 10;
const QUESTION = "What's the weather like in Seattle today?";
const EXPECT = 'partly cloudy';

const { values: args } = parseArgs({ options: { seconds: { type: 'string', default: '4' } } });
const seconds = Math.min(Number(args.seconds), MAX_SECONDS);
async function startAgent(llm, mcp) {
  const { child, coldStartMs, ml } = await startTenon();
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
  build();
  const llm = `${(await startScript('llm-mock.mjs')).url}/v1/chat/completions`;
  const mcp = (await startScript('mcp-server.mjs')).url;
  const bare = ['--llm', llm, '--mcp', `${mcp}/mcp`];
  console.log(`Node ${process.version}, ${cpus().length} cores, ${seconds} s a measurement\n`);
  table([
    ['bare loop, SDK over fetch', await measure('bare loop', startScript('bare-loop.mjs', ...bare))],
    ['bare loop, SDK over undici', await measure('thin loop', startScript('bare-loop.mjs', ...bare, '--thin'))],
    ['Tenon', await measure('Tenon', startAgent(llm, mcp))],
  ]);
}

await bench();
process.exit(0);
