import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { until } from '../hazards/rig.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import {
  type McpPeer,
  packageFile,
  startDebugServer,
  startDocumentationServer,
  startEverythingServer,
  startGitServer,
  startLibrary,
  startMemoryServer,
  startSessionEraServer,
  startStatelessMemoryServer,
  startStatelessServer,
} from '../support/mcp-peers.ts';
import { createRest, type Rest } from '../support/rest.ts';

/** A harmless call, and what its answer holds. */
interface Harmless {
  readonly version: string;
  readonly tools: number;
  readonly tool: string;
  readonly values: JsonObject;
  readonly says: RegExp;
}

const everything: Harmless = {
  version: '2025-11-25',
  tools: 15,
  tool: 'echo',
  values: { message: 'hello' },
  says: /Echo: hello/,
};
const memory: Harmless = { version: '2025-11-25', tools: 9, tool: 'read_graph', values: {}, says: /entities/ };
const library: Harmless = {
  version: '2026-07-28',
  tools: 2,
  tool: 'resolve-library-id',
  values: { query: 'How are widgets made?', libraryName: 'widgets' },
  says: /\/acme\/widgets/,
};
const add: Harmless = { version: '2025-11-25', tools: 1, tool: 'add', values: { a: 2, b: 3 }, says: /"5"/ };

const REMOTE: [string, (port?: number) => Promise<McpPeer>, Harmless][] = [
  ['everything', startEverythingServer, everything],
  ['memory behind supergateway', startMemoryServer, memory],
  ['memory behind mcp-proxy', startStatelessMemoryServer, { ...memory, version: '2026-07-28' }],
  [
    'git',
    startGitServer,
    { version: '2025-11-25', tools: 28, tool: 'git_clear_working_dir', values: { confirm: 'Y' }, says: /content/ },
  ],
  [
    'debug',
    startDebugServer,
    { version: '2025-11-25', tools: 3, tool: 'debug-tool', values: { contentType: 'text' }, says: /text/ },
  ],
  ['documentation', startDocumentationServer, library],
  ['the first SDK', startSessionEraServer, add],
  ['the second SDK', startStatelessServer, { ...add, version: '2026-07-28' }],
];

let rest: Rest;
let app: TestApp;
let folder: string;
let books: Awaited<ReturnType<typeof startLibrary>>;

const LOCAL: [string, Harmless][] = [
  ['everything', everything],
  [
    'filesystem',
    { version: '2025-11-25', tools: 14, tool: 'list_allowed_directories', values: {}, says: /tenon-real-/ },
  ],
  [
    'thinking',
    {
      version: '2025-11-25',
      tools: 1,
      tool: 'sequentialthinking',
      values: { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
      says: /thoughtNumber/,
    },
  ],
  ['memory', memory],
  ['documentation', library],
];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-real-'));
  books = await startLibrary();
  const command = (name: string, file = 'dist/index.js', ...args: string[]): string[] => [
    process.execPath,
    packageFile(name, file),
    ...args,
  ];
  const official = (name: string, ...args: string[]): string[] =>
    command(`@modelcontextprotocol/server-${name}`, 'dist/index.js', ...args);
  const mcp = {
    everything: { command: official('everything', 'stdio') },
    filesystem: { command: official('filesystem', folder) },
    thinking: { command: official('sequential-thinking') },
    memory: { command: official('memory'), environment: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } },
    documentation: {
      command: command('@upstash/context7-mcp'),
      environment: { CONTEXT7_API_URL: books.origin, OTEL_SDK_DISABLED: 'true' },
    },
  };
  await writeFile(join(folder, 'tenon.json'), JSON.stringify({ mcp }));
  app = await startApp({ folder });
  rest = createRest(app.url);
}, 60_000);
afterAll(async () => {
  await app?.close();
  await books?.stop();
  await rm(folder, { recursive: true, force: true });
});

const status = (id: string, query = ''): Promise<JsonObject> => rest.ok('GET', `/connectors/${id}/_status${query}`);
const call = (id: string, { tool, values }: Harmless) =>
  rest.send('POST', `/connectors/${id}/tools/${tool}/_execute`, { arguments: values });

/** Connected in its era, with its tools, and answering. */
async function expectGood(id: string, harmless: Harmless): Promise<void> {
  const answer = await call(id, harmless);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  expect(JSON.stringify(answer.body)).toMatch(harmless.says);
  const report = await status(id);
  expect(report).toMatchObject({ status: 'connected', protocol_version: harmless.version, tool_count: harmless.tools });
  expect(report.left_out).toBeUndefined();
}

describe.each(REMOTE)('%s, over HTTP', (name, start, harmless) => {
  it('is connected, listed, called, missed when it is killed, and found again', async () => {
    let peer = await start();
    try {
      const { connector_id: created } = await rest.ok('POST', '/connectors/_create', {
        name,
        version: 1,
        protocol: 'mcp_streamable_http',
        url: peer.url.replace(/\/mcp$/, ''),
        client_config: { max_retry_times: 0, connection_timeout: 20, read_timeout: 20 },
      });
      const id = String(created);
      const { tools } = await rest.ok('GET', `/connectors/${id}/tools`);
      expect((tools as unknown as JsonObject[]).map((tool) => tool.name)).toContain(harmless.tool);
      await expectGood(id, harmless);

      await peer.kill();
      expect((await call(id, harmless)).status).toBe(502);
      expect(await status(id)).toMatchObject({ status: 'failed', error: { code: 'connection_refused' } });

      peer = await start(Number(new URL(peer.url).port));
      await expectGood(id, harmless);
      await rest.ok('DELETE', `/connectors/${id}`);
    } finally {
      await peer.stop();
    }
  }, 60_000);
});

/** The processes that the tested server started for `id`, by what only their command line holds. */
async function processesWith(word: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const [command, stat] = await Promise.all(
        ['cmdline', 'stat'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
      );
      const parent = Number(/^\d+ \(.*\) \S (\d+)/s.exec(stat ?? '')?.[1]);
      return parent === process.pid && command?.includes(word) ? [pid] : [];
    }),
  );
  return found.flat();
}

describe.each(LOCAL)('%s, as a local process', (id, harmless) => {
  const word = { thinking: 'server-sequential-thinking', documentation: 'context7-mcp' }[id] ?? `server-${id}`;

  it('is connected, listed, called, missed when it is killed, and started again', async () => {
    await until(async () => (await status(id)).status === 'connected');
    await expectGood(id, harmless);
    const before = await processesWith(word);
    expect(before).toHaveLength(1);

    for (const pid of before) process.kill(pid, 'SIGKILL');
    await until(
      async () => (await status(id)).status !== 'connected' || !(await processesWith(word)).includes(Number(before[0])),
    );
    await until(async () => (await call(id, harmless)).status === 200);
    await expectGood(id, harmless);
    const after = await processesWith(word);
    expect(after).toHaveLength(1);
    expect(after).not.toEqual(before);
    const { changes } = { changes: JSON.stringify(await rest.ok('GET', `/connectors/${id}/_history`)) };
    expect(changes).toContain('process_exited');
  }, 60_000);
});

it('ends all local processes with the server', async () => {
  await app.close();
  for (const word of ['server-everything', 'server-filesystem', 'context7-mcp'])
    expect(await processesWith(word)).toEqual([]);
}, 60_000);
