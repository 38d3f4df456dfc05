import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/config.ts';
import { StartupError } from '../../src/errors.ts';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, registerChatModel } from '../support/rest.ts';

const VARIABLES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['PATH', 'HOME'].map((name) => [name, process.env[name] ?? ''])),
  WIKI_TOKEN: 'tok-4711-secret',
  MEMORY_KEY: 'key-4712-secret',
};

let folder: string;
let app: TestApp | undefined;
let peers: { stop(): Promise<unknown> }[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-declared-'));
  peers = [];
});
afterEach(async () => {
  await app?.close();
  app = undefined;
  await Promise.all(peers.map((peer) => peer.stop().catch(() => undefined)));
  await rm(folder, { recursive: true, force: true });
});

async function serve(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
  const peer = await startFakeMcpServer(script);
  peers.push(peer);
  return peer;
}

const declare = (content: JsonObject, file = 'tenon.json'): Promise<void> =>
  writeFile(join(folder, file), JSON.stringify(content));

async function start(config: Partial<Config> = {}): Promise<TestApp> {
  const variable = (name: string): string | undefined => VARIABLES[name];
  app = await startApp({ folder, config: { variable, ...config } });
  return app;
}

async function restart(config: Partial<Config> = {}): Promise<TestApp> {
  await app?.close();
  return start(config);
}

async function send(method: string, path: string, body?: unknown, headers?: Record<string, string>) {
  if (app === undefined) throw new Error('not started');
  return app.request(method, `/_plugins/_ml${path}`, body, headers);
}
async function ok(method: string, path: string, body?: unknown): Promise<JsonObject> {
  const answer = await send(method, path, body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as JsonObject;
}
const probe = (id: string) => ok('GET', `/connectors/${id}/_status?probe=true`);
const errorOf = ({ error }: JsonObject) => error as JsonObject;

describe('servers of the configuration file', () => {
  it('connect at start, each for itself: what fails is reported and stops nobody', async () => {
    const [wiki, plain, refusing] = await Promise.all([
      serve(),
      serve({ modern: true }),
      serve({ on: { '*': { status: 401 } } }),
    ]);
    const hanging = await serve({ on: { '*': { hold: 'never' } } });
    const gone = await serve();
    await gone.stop();
    await declare({
      mcp: {
        wiki: { url: `${wiki.origin}/deep/mcp?x=1`, headers: { Authorization: 'Bearer {env:WIKI_TOKEN}' } },
        plain: { type: 'http', url: `${plain.origin}/mcp` },
        secured: { url: `${refusing.origin}/mcp` },
        slow: { url: `${hanging.origin}/mcp`, timeout: 60_000 },
        down: { url: `${gone.origin}/mcp`, timeout: 2000 },
        unset: { url: 'https://wiki.example/mcp', headers: { Authorization: 'Bearer {env:MISSING}' } },
        both: { url: 'https://wiki.example/mcp', command: ['x'] },
        old: { type: 'sse', url: 'https://wiki.example/sse' },
        metadata: { url: 'http://169.254.169.254/mcp' },
        'My Server': { url: 'https://wiki.example/mcp' },
        off: { url: `${wiki.origin}/off`, enabled: false },
      },
    });
    await start();
    expect((await send('GET', '/../../healthz')).status).toBe(200);
    const [request] = await Promise.all([
      wiki.seen('tools/list'),
      plain.seen('tools/list'),
      hanging.seen('server/discover'),
    ]);
    expect(request.path).toBe('/deep/mcp?x=1');
    expect(request.headers.authorization).toBe('Bearer tok-4711-secret');
    for (const id of ['wiki', 'plain', 'secured', 'down']) await probe(id);
    const { connectors } = (await ok('GET', '/connectors/_status')) as { connectors: JsonObject[] };
    const seen = connectors.map(({ connector_id, origin, transport, status, error }) =>
      [connector_id, origin, transport, status, (error as JsonObject | undefined)?.code ?? ''].join(' ').trim(),
    );
    expect(seen).toEqual([
      'wiki config remote connected',
      'plain config remote connected',
      'secured config remote auth_required auth_required',
      'slow config remote connecting',
      'down config remote failed connection_refused',
      'unset config remote failed invalid_config',
      'both config local failed invalid_config',
      'old config remote failed invalid_config',
      'metadata config remote failed address_refused',
      'My Server config remote failed invalid_config',
      'off config remote disabled',
    ]);
    const unset = errorOf(connectors[5] ?? {});
    expect(unset.message).toContain(
      `Server "unset" of ${join(folder, 'tenon.json')}: header Authorization uses {env:MISSING}`,
    );
    expect(wiki.of('initialize')).toHaveLength(1);
    expect(wiki.requests.every(({ path }) => path === '/deep/mcp?x=1')).toBe(true);
    const said = JSON.stringify(connectors) + (app?.lines.join('\n') ?? '');
    expect(said).not.toContain('tok-4711');
  });

  it('offer their tools as <server>_<tool>, and take calls under both names', async () => {
    const tools = ['echo', 'a.b', 'x'.repeat(70)].map((name) => ({ name, inputSchema: { type: 'object' } }));
    const wiki = await serve({ tools });
    await declare({ mcpServers: { wiki: { type: 'http', url: `${wiki.origin}/mcp` } } });
    await start();
    await probe('wiki');
    const { tools: shown } = (await ok('GET', '/connectors/wiki/_status')) as { tools: JsonObject[] };
    expect(shown.map(({ offered_as }) => offered_as)).toEqual([
      'wiki_echo',
      'wiki_a_b',
      expect.stringMatching(/^wiki_x{50}_[0-9a-f]{8}$/),
    ]);
    for (const name of ['wiki_echo', 'echo']) {
      const { content } = (await ok('POST', `/connectors/wiki/tools/${name}/_execute`, {
        arguments: { text: name },
      })) as { content: JsonObject[] };
      expect(content[0]?.text).toBe(`echo: {"text":"${name}"}`);
    }
  });

  it('are read-only and shown without values', async () => {
    const headers = { Authorization: 'Bearer {env:WIKI_TOKEN}', 'X-Api-Key': 'literal-secret-4713' };
    await declare({ mcp: { wiki: { url: 'https://wiki.example/mcp', headers, enabled: false, agents: ['helper'] } } });
    await start();
    expect(await ok('GET', '/connectors/wiki')).toMatchObject({
      name: 'wiki',
      protocol: 'mcp_streamable_http',
      origin: 'config',
      url: 'https://wiki.example/mcp',
      headers: { Authorization: 'Bearer {env:WIKI_TOKEN}', 'X-Api-Key': '[redacted]' },
      enabled: false,
      agents: ['helper'],
    });
    for (const [method, body] of [
      ['PUT', { name: 'x' }],
      ['DELETE', undefined],
    ] as const) {
      const answer = await send(method, '/connectors/wiki', body);
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('Connector wiki is declared in the configuration file');
    }
    const created = await send('POST', '/connectors/_create', {
      connector_id: 'wiki',
      name: 'x',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'https://other.example',
    });
    expect([created.status, created.text]).toEqual([
      409,
      expect.stringContaining("connector id 'wiki' already exists"),
    ]);
    expect(app?.lines.join('\n')).not.toContain('literal-secret');
  });

  it('are switched until the restart, and the file stays as it is', async () => {
    const wiki = await serve();
    await declare({ mcp: { wiki: { url: `${wiki.origin}/mcp` } } });
    const before = await readFile(join(folder, 'tenon.json'), 'utf8');
    await start();
    await probe('wiki');
    expect(await ok('POST', '/connectors/wiki/_disable')).toMatchObject({ status: 'disabled', actions: ['enable'] });
    expect((await send('GET', '/connectors/wiki/tools')).status).toBe(409);
    await restart();
    expect(await probe('wiki')).toMatchObject({ status: 'connected', actions: ['disable'] });
    await ok('POST', '/connectors/wiki/_disable');
    expect(await ok('POST', '/connectors/wiki/_enable')).toMatchObject({ status: 'connected' });
    expect(await readFile(join(folder, 'tenon.json'), 'utf8')).toBe(before);
  });

  it('are switched by administrators only', async () => {
    await declare({ mcp: { wiki: { url: 'https://wiki.example/mcp', enabled: false } } });
    const admin = { authorization: `Basic ${Buffer.from('admin:first-Passw0rd').toString('base64')}` };
    const ann = { authorization: `Basic ${Buffer.from('ann:second-Passw0rd').toString('base64')}` };
    const server = await start({ firstAdmin: { name: 'admin', password: 'first-Passw0rd' } });
    const user = { password: 'second-Passw0rd', opendistro_security_roles: ['ml_full_access'] };
    const put = await server.request('PUT', '/_plugins/_security/api/internalusers/ann', user, admin);
    expect(put.status, put.text).toBeLessThan(300);
    expect((await send('GET', '/connectors/wiki/_status', undefined, ann)).status).toBe(200);
    const refused = await send('POST', '/connectors/wiki/_enable', undefined, ann);
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('administrators switch it')]);
  });

  it('keep off a name that a stored connector has', async () => {
    const [stored, declared] = await Promise.all([serve(), serve()]);
    await start();
    await ok('POST', '/connectors/_create', {
      connector_id: 'wiki',
      name: 'stored wiki',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: stored.origin,
    });
    await declare({ mcp: { wiki: { url: `${declared.origin}/mcp`, agents: ['*'] } } });
    await restart();
    expect(await probe('wiki')).toMatchObject({ name: 'stored wiki', origin: 'api', status: 'connected' });
    const { connectors } = (await ok('GET', '/connectors/_status')) as { connectors: JsonObject[] };
    expect(connectors.map(({ name, origin, status }) => [name, origin, status])).toEqual([
      ['stored wiki', 'api', 'connected'],
      ['wiki', 'config', 'failed'],
    ]);
    expect(errorOf(connectors[1] ?? {}).code).toBe('id_taken');
    expect(declared.requests).toEqual([]);
    const warnings = app?.lines.filter((line) => line.includes('id_taken')) ?? [];
    expect(warnings).toHaveLength(1);
  });

  it('leave nothing to a connector that is created under their name later', async () => {
    const old = await serve({ tools: [{ name: 'old_tool', inputSchema: { type: 'object' } }] });
    await declare({ mcp: { wiki: { url: `${old.origin}/mcp` } } });
    await start();
    expect(await probe('wiki')).toMatchObject({ status: 'connected', tools: [{ name: 'old_tool' }] });
    await ok('POST', '/connectors/wiki/_disable');
    await declare({ mcp: {} });
    await restart();
    const created = { connector_id: 'wiki', name: 'wiki', version: 1, protocol: 'mcp_streamable_http' };
    await ok('POST', '/connectors/_create', { ...created, url: old.origin });
    const status = await ok('GET', '/connectors/wiki/_status');
    expect(status).toMatchObject({ status: 'idle', origin: 'api', tool_count: 0, tools: [] });
    expect(status).not.toHaveProperty('last_success_time');
    expect((await ok('GET', '/connectors/wiki/_history')).transitions).toEqual([]);
  });

  it('come from the project before the global file', async () => {
    const [global, project] = await Promise.all([serve(), serve()]);
    await declare(
      { mcp: { wiki: { url: `${global.origin}/mcp` }, other: { url: `${global.origin}/mcp` } } },
      'global.json',
    );
    await declare({ mcp: { wiki: { url: `${project.origin}/mcp` } } });
    await start();
    await Promise.all([probe('wiki'), probe('other')]);
    expect([global.of('tools/list').length, project.of('tools/list').length]).toEqual([1, 1]);
  });

  it('that are no JSON, or are named and missing, refuse the start before anything is made', async () => {
    await writeFile(join(folder, 'tenon.json'), '{\n"mcp": {,}\n}');
    await expect(start()).rejects.toThrow(/tenon\.json is not valid JSON: .*\(line 2, column 9\)/);
    await rm(join(folder, 'tenon.json'));
    const missing = start({ namedConfigFiles: ['TENON_CONFIG'] });
    await expect(missing).rejects.toThrow(`TENON_CONFIG: ${join(folder, 'tenon.json')}: there is no such file`);
    await expect(missing).rejects.toBeInstanceOf(StartupError);
    await expect(readFile(join(folder, 'data', 'tenon.db'))).rejects.toThrow('ENOENT');
  });
});

describe('agents and servers of the configuration file', () => {
  let llm: FakeLlmServer;
  let modelId: string;

  async function withModel(): Promise<void> {
    const { url } = await start();
    llm = await startFakeLlm({ strict: true });
    peers.push({ stop: () => llm.close() });
    modelId = await registerChatModel(createRest(url), llm.url);
  }
  async function addAgent(name: string, connectorIds: readonly string[]): Promise<string> {
    const tools = connectorIds.map((id) => ({ type: 'MCPTool', parameters: { connector_id: id } }));
    const body = { name, type: 'conversational', llm: { model_id: modelId }, tools };
    return String((await ok('POST', '/agents/_register', body)).agent_id);
  }
  const ask = (id: string) => send('POST', `/agents/${id}/_execute`, { parameters: { question: 'what is there?' } });
  const offered = () => llm.requests.at(-1)?.toolNames;

  it('an agent names them as any connector, and is joined by those that name it', async () => {
    const [wiki, files, notes] = await Promise.all([serve(), serve(), serve()]);
    await declare({
      mcp: {
        wiki: { url: `${wiki.origin}/mcp` },
        files: { url: `${files.origin}/mcp`, agents: ['helper'] },
        notes: { url: `${notes.origin}/mcp`, agents: ['*'] },
      },
    });
    await withModel();
    const [helper, other, none] = await Promise.all([
      addAgent('helper', ['wiki']),
      addAgent('other', ['wiki', 'notes']),
      addAgent('none', []),
    ]);
    llm.reset('1', '2', { tool: 'notes_echo', args: '{"text":"hi"}' }, '3');
    await ask(helper);
    expect(offered()).toEqual(['wiki_echo', 'files_echo', 'notes_echo']);
    await ask(other);
    expect(offered()).toEqual(['wiki_echo', 'notes_echo']);
    const answer = await ask(none);
    expect([offered(), answer.headers.get('warning')]).toEqual([['notes_echo'], null]);
    expect(notes.of('tools/call')).toHaveLength(1);
    const { mcp_connections: connections } = (await ok('GET', `/agents/${helper}`)) as {
      mcp_connections: JsonObject[];
    };
    expect(connections.map(({ connector_id, tools }) => [connector_id, tools])).toEqual([
      ['wiki', ['wiki_echo']],
      ['files', ['files_echo']],
      ['notes', ['notes_echo']],
    ]);
  });

  it('one that joins is missed when it fails, and not when it is switched off', async () => {
    const notes = await serve();
    await declare({
      mcp: { notes: { url: `${notes.origin}/mcp`, agents: ['*'], client_config: { max_retry_times: 0 } } },
    });
    await withModel();
    const agent = await addAgent('any', []);
    await probe('notes');
    await ok('POST', '/connectors/notes/_disable');
    llm.reset('1', '2');
    expect((await ask(agent)).headers.get('warning')).toBeNull();
    expect(offered()).toEqual([]);
    await notes.stop();
    await ok('POST', '/connectors/notes/_enable');
    const answer = await ask(agent);
    expect([answer.status, answer.headers.get('warning')]).toEqual([200, expect.stringContaining('notes')]);
  });

  it('a tool of the API that would be called the same gets another name', async () => {
    const [wiki, api] = await Promise.all([
      serve(),
      serve({ tools: [{ name: 'wiki_echo', inputSchema: { type: 'object' } }] }),
    ]);
    await declare({ mcp: { wiki: { url: `${wiki.origin}/mcp`, agents: ['*'] } } });
    await withModel();
    const { connector_id: id } = await ok('POST', '/connectors/_create', {
      name: 'api',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: api.origin,
    });
    llm.reset('1');
    await ask(await addAgent('any', [String(id)]));
    expect(offered()).toEqual(['api_wiki_echo', 'wiki_echo']);
  });
});

describe('local servers of the configuration file', () => {
  const memory = join(
    dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/server-memory/package.json')),
    'dist/index.js',
  );

  it('run with their own environment, in the folder of the file, audited with their arguments', async () => {
    await mkdir(join(folder, 'work'));
    await declare({
      mcp: {
        memory: {
          command: [process.execPath, memory],
          environment: { MEMORY_FILE_PATH: join(folder, 'graph.json'), MEMORY_KEY: '{env:MEMORY_KEY}' },
          cwd: 'work',
        },
        broken: { command: [join(folder, 'no-such-program')], client_config: { max_retry_times: 0 } },
      },
    });
    await start();
    expect(await probe('memory')).toMatchObject({ transport: 'local', status: 'connected', tool_count: 9 });
    const entities = [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }];
    await ok('POST', '/connectors/memory/tools/memory_create_entities/_execute', { arguments: { entities } });
    expect(await readFile(join(folder, 'graph.json'), 'utf8')).toContain('likes tea');
    expect(errorOf(await probe('broken')).code).toBe('spawn_failed');
    const shown = await ok('GET', '/connectors/memory');
    expect(shown).toMatchObject({
      protocol: 'mcp_stdio',
      command: [process.execPath, memory],
      environment: ['MEMORY_FILE_PATH', 'MEMORY_KEY'],
      cwd: join(folder, 'work'),
    });
    const { hits } = (await ok('POST', '/audit/_search', {
      query: { term: { action: 'process.start' } },
      size: 50,
    })) as {
      hits: { hits: { _source: JsonObject }[] };
    };
    const started = hits.hits.map(({ _source }) => _source).filter(({ connector_id }) => connector_id === 'memory');
    expect(started).toEqual([
      expect.objectContaining({
        principal: 'system',
        detail: JSON.stringify({ argv: [process.execPath, memory], cwd: join(folder, 'work') }),
      }),
    ]);
    expect(JSON.stringify(shown) + app?.lines.join('\n')).not.toContain('key-4712');
  });

  it('never come from the API', async () => {
    await start();
    for (const members of [{ command: ['x'] }, { protocol: 'mcp_stdio' }]) {
      const answer = await send('POST', '/connectors/_create', {
        name: 'x',
        version: 1,
        protocol: 'mcp_streamable_http',
        url: 'https://wiki.example',
        ...members,
      });
      expect([answer.status, answer.text]).toEqual([
        400,
        expect.stringContaining("only from the operator's configuration file"),
      ]);
    }
  });
});
