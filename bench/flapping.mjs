// Many connectors, some of which come and go: what everybody else waits for the API, as a ratio to the same load while
// all of them are well.
//   npm run bench:flapping [-- --connectors 500 --flapping 50 --seconds 10]
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { treeUsage } from './proc.mjs';
import { build, post, startScript, startTenon, stop } from './programs.mjs';

const { values: args } = parseArgs({
  options: {
    connectors: { type: 'string', default: '500' },
    flapping: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '10' },
  },
});
const total = Number(args.connectors);
const flapping = Math.min(Number(args.flapping), total - 1);
const seconds = Number(args.seconds);
const WATCHERS = 4;
/** Between two requests of a watcher: latency is looked at, not how much fits. */
const PAUSE_MS = 10;
/** How often each flapping connector is used, in milliseconds. */
const USED_EVERY_MS = 200;

build();
const mcp = (await startScript('mcp-server.mjs')).url;
const { child, ml } = await startTenon({ logLevel: 'error' });

async function create(n) {
  const endpoint = n < flapping ? `/flap/${n}` : '/mcp';
  return post(`${ml}/connectors/_create`, {
    name: `server ${n}`,
    version: 1,
    protocol: 'mcp_streamable_http',
    url: mcp,
    parameters: { endpoint },
    client_config: { max_retry_times: 1, retry_backoff_millis: 50 },
  });
}

const ids = [];
for (let n = 0; n < total; n += 1) ids.push((await create(n)).connector_id);
const coming = ids.slice(0, flapping);
const well = ids.slice(flapping);
const use = (id) =>
  fetch(`${ml}/connectors/${id}/tools/get_current_weather/_execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ arguments: { location: 'Seattle' } }),
  });
for (const id of ids) if (!(await use(id)).ok) throw new Error('a server that is well did not answer');

const KINDS = {
  'GET a connector': (id) => fetch(`${ml}/connectors/${id}`),
  'GET a status': (id) => fetch(`${ml}/connectors/${id}/_status`),
  'call a tool': use,
};

/** Percentiles of each kind of request to the connectors that are well, while the others are used all the time. */
async function measure() {
  const until = performance.now() + seconds * 1000;
  const times = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
  const before = treeUsage(child.pid).cpuMs;
  let failures = 0;
  let refusals = 0;
  const watch = async (offset) => {
    for (let n = offset; performance.now() < until; n += WATCHERS) {
      const [kind, send] = Object.entries(KINDS)[n % 3];
      const sent = performance.now();
      const answer = await send(well[n % Math.min(well.length, 200)]);
      await answer.text();
      if (answer.ok) times[kind].push(performance.now() - sent);
      else failures += 1;
      await sleep(PAUSE_MS);
    }
  };
  const bother = async (id) => {
    while (performance.now() < until) {
      const answer = await use(id).catch(() => undefined);
      await answer?.text();
      if (!answer?.ok) refusals += 1;
      await sleep(USED_EVERY_MS);
    }
  };
  await Promise.all([...Array.from({ length: WATCHERS }, (_, n) => watch(n)), ...coming.map(bother)]);
  if (failures > 0) throw new Error(`${failures} requests failed that had nothing to do with it`);
  const cpu = (treeUsage(child.pid).cpuMs - before) / (seconds * 10);
  return { times, refusals, cpu };
}

const flap = (on) => post(`${mcp}/flap?on=${on}`, { jsonrpc: '2.0' });
const at = (times, share) => times.toSorted((a, b) => a - b)[Math.floor(share * times.length)];

console.log(
  `Node ${process.version}, ${cpus().length} cores, ${total} connectors, ${flapping} flapping, ${seconds} s each\n`,
);
await measure();
const quiet = await measure();
await flap(true);
const busy = await measure();
await flap(false);
console.log('| | p50 ms, quiet | flapping | p99 ms, quiet | flapping |');
console.log('|---|---|---|---|---|');
for (const kind of Object.keys(KINDS)) {
  const cells = [0.5, 0.99].flatMap((share) => {
    const [still, moved] = [at(quiet.times[kind], share), at(busy.times[kind], share)];
    return [still.toFixed(2), `${moved.toFixed(2)} (×${(moved / still).toFixed(2)})`];
  });
  console.log(`| ${kind} | ${cells.join(' | ')} |`);
}
console.log(
  `\nCPU ${quiet.cpu.toFixed(0)} % → ${busy.cpu.toFixed(0)} %; calls refused ${quiet.refusals} → ${busy.refusals}`,
);
const { connectors } = await (await fetch(`${ml}/connectors/_status`)).json();
const states = connectors.map(({ status }) => status);
console.log(`states: ${[...new Set(states)].map((s) => `${states.filter((x) => x === s).length} ${s}`).join(', ')}`);
await stop(child);
process.exit(0);
