// Opens and closes sessions with one MCP server over REST, again and again: the heap has to be as flat at the end as at
// the first tenth, and no session and no socket may be left.
//   npm run bench:sessions [-- --sessions 100000 --connectors 50]
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { treeUsage } from './proc.mjs';
import { build, post, startScript, startTenon, stop } from './programs.mjs';

const { values: args } = parseArgs({
  options: { sessions: { type: 'string', default: '100000' }, connectors: { type: 'string', default: '50' } },
});
const total = Number(args.sessions);
const connectors = Math.min(Number(args.connectors), total);
/** Prints the heap after a full collection when it is sent SIGWINCH. */
const HEAP = `data:text/javascript,${encodeURIComponent(`
  process.on('SIGWINCH', () => {
    for (let times = 0; times < 3; times += 1) globalThis.gc();
    process.stderr.write('HEAP ' + process.memoryUsage().heapUsed + '\\n');
  });
`)}`;

build();
const mcp = (await startScript('mcp-server.mjs', '--keep-alive-ms=3000')).url;
const options = ['--expose-gc', '--import', HEAP];
const { child, ml } = await startTenon({ nodeOptions: options, logLevel: 'error', stderr: 'pipe' });
const counts = async () => (await fetch(`${mcp}/counts`, { headers: { connection: 'close' } })).json();

async function heapMb() {
  const said = new Promise((resolve) => {
    const look = (text) => {
      const octets = /HEAP (\d+)/.exec(text)?.[1];
      if (octets === undefined) return;
      child.stderr.off('data', look);
      resolve(Number(octets) / 1024 / 1024);
    };
    child.stderr.on('data', look);
  });
  await sleep(500);
  child.kill('SIGWINCH');
  return said;
}

const ids = [];
for (let n = 0; n < connectors; n += 1) {
  const connector = { name: `bench ${n}`, version: 1, protocol: 'mcp_streamable_http', url: mcp };
  ids.push((await post(`${ml}/connectors/_create`, connector)).connector_id);
}

/** A session that is opened and closed: the connection is enabled, which opens it, and disabled. */
async function cycle(id) {
  await post(`${ml}/connectors/${id}/_disable`);
  const { status } = await post(`${ml}/connectors/${id}/_enable`);
  if (status !== 'connected') throw new Error(`not connected but ${status}`);
}

async function cyclesUntil(goal) {
  let started = (await counts()).opened;
  await Promise.all(
    ids.map(async (id) => {
      while (started < goal) {
        started += 1;
        await cycle(id);
      }
    }),
  );
}

console.log(`Node ${process.version}, ${cpus().length} cores, ${total} sessions over ${connectors} connectors\n`);
console.log('| sessions | heap MB | resident MB | sessions open | sockets |');
console.log('|---|---|---|---|---|');
const heaps = [];
for (const share of [0.1, 0.25, 0.5, 1]) {
  await cyclesUntil(Math.round(total * share));
  heaps.push(await heapMb());
  const { opened, sessions, sockets } = await counts();
  const resident = treeUsage(child.pid).rssMb.toFixed(0);
  console.log(`| ${opened} | ${heaps.at(-1).toFixed(1)} | ${resident} | ${sessions} | ${sockets} |`);
}
for (const id of ids) {
  const answer = await fetch(`${ml}/connectors/${id}`, { method: 'DELETE' });
  if (!answer.ok) throw new Error(`DELETE: ${answer.status}`);
}
await sleep(8000);
const left = await counts();
const own = 1;
console.log(`\nheap at the end ×${(heaps.at(-1) / heaps[0]).toFixed(2)} of that at a tenth`);
console.log(`left behind: ${left.sessions} sessions, ${left.sockets - own} sockets`);
await stop(child);
process.exit(0);
