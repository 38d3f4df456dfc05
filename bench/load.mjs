// Bounded load on one loopback URL: `connections` requests in flight for `seconds`, exact percentiles over all answers.
import { Pool } from 'undici';
import { treeUsage } from './proc.mjs';

/** @returns {{ requests, rps, p50, p99, cpuMs, failures }} p50 and p99 in ms, cpuMs per request of process `pid` */
export async function load({ url, body, expect, connections, seconds, pid }) {
  const { origin, pathname, hostname } = new URL(url);
  if (hostname !== '127.0.0.1') throw new Error(`not a loopback address: ${url}`);
  const pool = new Pool(origin, { connections });
  const times = [];
  let failures = 0;
  const before = treeUsage(pid);
  const started = performance.now();
  const end = started + seconds * 1000;
  const headers = { 'content-type': 'application/json' };
  async function worker() {
    while (performance.now() < end) {
      const sent = performance.now();
      const answer = await pool.request({ path: pathname, method: 'POST', headers, body });
      const text = await answer.body.text();
      if (answer.statusCode === 200 && text.includes(expect)) times.push(performance.now() - sent);
      else failures += 1;
    }
  }
  await Promise.all(Array.from({ length: connections }, worker));
  const elapsed = (performance.now() - started) / 1000;
  const after = treeUsage(pid);
  await pool.close();
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
  return {
    requests: times.length,
    rps: times.length / elapsed,
    p50: at(0.5),
    p99: at(0.99),
    cpuMs: (after.cpuMs - before.cpuMs) / (times.length || 1),
    failures,
  };
}
