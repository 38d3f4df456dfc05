import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageFile } from '../support/mcp-peers.ts';
import {
  callTool,
  childrenRunning,
  failureOf,
  isAlive,
  PLAIN,
  type ProcessRig,
  processRig,
  textOf,
} from './process-rig.ts';

let rig: ProcessRig;
let folder: string;
beforeEach(async () => {
  rig = processRig();
  folder = await mkdtemp(join(tmpdir(), 'tenon-process-servers-'));
});
afterEach(async () => {
  await rig.dispose();
  await rm(folder, { recursive: true, force: true });
});

it('the everything server: listed, called with progress, cancelled, ended', async () => {
  const server = packageFile('@modelcontextprotocol/server-everything', 'dist/index.js');
  const opened = await rig.open([server, 'stdio']);
  expect(opened.session.protocolVersion).toBe('2025-11-25');
  expect(opened.session.deviations()).toEqual([]);
  expect(opened.answer.entries.length).toBeGreaterThanOrEqual(10);
  expect(textOf(await callTool(opened, 'echo', { message: 'grüezi 🌋' }))).toContain('grüezi 🌋');
  const steps: unknown[] = [];
  const long = await callTool(
    opened,
    'trigger-long-running-operation',
    { duration: 0.4, steps: 4 },
    { onProgress: (progress) => void steps.push(progress.progress) },
  );
  expect(textOf(long)).toContain('completed');
  expect(steps).toContain(4);
  await opened.session.close();
  expect(rig.gone).toEqual([]);
});

it('the memory server: its state survives its process, which a signal ends', async () => {
  const server = packageFile('@modelcontextprotocol/server-memory', 'dist/index.js');
  const environment = { ...PLAIN, MEMORY_FILE_PATH: join(folder, 'memory.jsonl') };
  const first = await rig.open([server], { environment });
  expect(first.answer.entries).toHaveLength(9);
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['writes programs'] }];
  expect((await callTool(first, 'create_entities', { entities })).structuredContent).toEqual({ entities });
  await expect.poll(() => rig.stderr()).toContain('Knowledge Graph MCP Server running on stdio');
  const [pid = 0] = childrenRunning(server);
  expect(pid).toBeGreaterThan(1);
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => rig.gone).toHaveLength(1);
  expect(rig.gone[0]?.message).toContain('was ended by signal SIGKILL');
  expect(await failureOf(callTool(first, 'read_graph'))).toMatchObject({ code: 'process_exited', delivered: 'no' });
  await first.session.close();
  expect(isAlive(-pid)).toBe(false);
  const second = await rig.open([server], { environment });
  expect((await callTool(second, 'read_graph')).structuredContent).toMatchObject({ entities });
  await second.session.close();
});
