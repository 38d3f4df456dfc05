import { afterEach, describe, expect, it } from 'vitest';
import { declarationOf } from '../../src/connectors/declared/declared-entry.ts';
import { declaredServers } from '../../src/connectors/declared/declared-servers.ts';
import type { McpEndpoint } from '../../src/connectors/types.ts';
import { CONNECTOR_NOT_FOUND, FORBIDDEN, ID_TAKEN, INVALID_ARGUMENT, UpstreamError } from '../../src/errors.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { judgeAddress, judgeUrl } from '../../src/outbound/address-guard.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { userPrincipal } from '../support/principals.ts';
import { mcpBody, type Rig, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const VARIABLES: Readonly<Record<string, string>> = { TOKEN: 'tok-4711-secret' };

/** The room with servers of a file beside the stored connectors; authenticated, so that loopback is not allowed by itself. */
async function start(entries: Record<string, JsonObject>): Promise<Rig> {
  const redactor = createRedactor();
  const declarations = Object.entries(entries).map(([name, entry]) =>
    declarationOf({ name, entry, path: '/etc/tenon.json', time: 1000 }, (key) => VARIABLES[key]),
  );
  rig = await startRig({ openMode: false, declared: declaredServers(declarations, redactor), redactor });
  return rig;
}

const remote = (url: string, members: JsonObject = {}) => ({ url, ...members });
const endpointOf = async (id: string): Promise<McpEndpoint> =>
  rig.connectors.mcpEndpoint(await rig.connectors.load(id));

describe('a declared server among the connectors', () => {
  it('is found by its name, visible to all, and listed behind the stored ones', async () => {
    await start({ wiki: remote('https://wiki.example/mcp'), files: { command: ['x'] } });
    const stored = await rig.create(mcpBody());
    expect((await rig.connectors.list()).map(({ id, protocol }) => [id, protocol])).toEqual([
      [stored, 'mcp_streamable_http'],
      ['wiki', 'mcp_streamable_http'],
      ['files', 'mcp_stdio'],
    ]);
    const found = await rig.connectors.find('wiki');
    expect(found).toMatchObject({ id: 'wiki', name: 'wiki', declared: { enabled: true, agents: [] } });
    expect(rig.connectors.visible(userPrincipal('ann'), found as never)).toBe(true);
    await expect(rig.connectors.load('nobody')).rejects.toBeInstanceOf(CONNECTOR_NOT_FOUND);
  });

  it('is shown without a value', async () => {
    const headers = { Authorization: 'Bearer {env:TOKEN}', 'X-Key': 'literal-secret' };
    await start({
      wiki: remote('https://wiki.example/mcp', { headers }),
      files: { command: ['x', '--mode=tok-4711-secret'], environment: { KEY: '{env:TOKEN}' } },
    });
    const wiki = await rig.connectors.get(userPrincipal('ann'), 'wiki');
    expect(wiki).toEqual({
      name: 'wiki',
      version: '1',
      protocol: 'mcp_streamable_http',
      parameters: {},
      origin: 'config',
      url: 'https://wiki.example/mcp',
      headers: { Authorization: 'Bearer {env:TOKEN}', 'X-Key': '[redacted]' },
      enabled: true,
      agents: [],
      client_config: expect.objectContaining({ connection_timeout: 30, read_timeout: 30, max_total_timeout: 300 }),
      created_time: 1000,
      last_updated_time: 1000,
    });
    await rig.connectors.localServer(await rig.connectors.load('files'));
    const files = await rig.connectors.get(OPEN_PRINCIPAL, 'files');
    expect(files).toMatchObject({ command: ['x', '--mode=[redacted]'], environment: ['KEY'], cwd: '/etc' });
  });

  it('is changed in the file only', async () => {
    await start({ wiki: remote('https://wiki.example/mcp') });
    const text = 'Connector wiki is declared in the configuration file. Change it there, and restart the server.';
    await expect(rig.connectors.update(OPEN_PRINCIPAL, 'wiki', { name: 'x' })).rejects.toThrow(
      new INVALID_ARGUMENT(text),
    );
    await expect(rig.connectors.delete(OPEN_PRINCIPAL, 'wiki')).rejects.toThrow(new INVALID_ARGUMENT(text));
    for (const members of [{}, { dry_run: true }]) {
      const made = rig.connectors.create(OPEN_PRINCIPAL, mcpBody({ connector_id: 'wiki', ...members }));
      await expect(made).rejects.toBeInstanceOf(ID_TAKEN);
    }
    expect(await rig.documents.count('connector')).toBe(0);
  });

  it('is switched by administrators only, whether or not ownership is on', async () => {
    await start({ wiki: remote('https://wiki.example/mcp') });
    const wiki = await rig.connectors.load('wiki');
    expect(() => rig.connectors.requireOwned(userPrincipal('ann'), 'disable', wiki)).toThrow(FORBIDDEN);
    expect(() => rig.connectors.requireOwned(userPrincipal('ann'), 'enable', wiki)).toThrow(/administrators switch it/);
    expect(() => rig.connectors.requireOwned(OPEN_PRINCIPAL, 'disable', wiki)).not.toThrow();
  });

  it('loses its name to a stored connector, and has it again when that is gone', async () => {
    await start({ wiki: remote('https://wiki.example/mcp', { agents: ['*'] }) });
    await rig.documents.insert('connector', 'wiki', {
      name: 'stored',
      body: mcpBody({ name: 'stored', version: '1', parameters: {} }),
    });
    expect((await rig.connectors.load('wiki')).name).toBe('stored');
    expect((await rig.connectors.get(OPEN_PRINCIPAL, 'wiki')).name).toBe('stored');
    const all = await rig.connectors.list();
    expect(all.map(({ id, name, declared }) => [id, name, declared?.problem?.code])).toEqual([
      ['wiki', 'stored', undefined],
      ['wiki', 'wiki', 'id_taken'],
    ]);
    expect(rig.connectors.joinedTo({ id: 'a', name: 'a' })).toEqual([]);
    await rig.connectors.update(OPEN_PRINCIPAL, 'wiki', { description: 'changed' });
    await rig.connectors.delete(OPEN_PRINCIPAL, 'wiki');
    expect((await rig.connectors.load('wiki')).declared?.problem).toBeUndefined();
    expect(rig.connectors.joinedTo({ id: 'a', name: 'a' })).toEqual(['wiki']);
  });
});

describe('where a declared server is reached', () => {
  const allowed = (url: string, { policy }: McpEndpoint) => judgeUrl(url, policy).allowed;

  it('is its whole address, at any port of this network, with its headers and no others', async () => {
    const headers = { Authorization: 'Bearer {env:TOKEN}', 'X-A': '${credential.k}' };
    await start({ wiki: remote('http://10.1.2.3:8080/deep/mcp?x=1', { headers }) });
    const endpoint = await endpointOf('wiki');
    expect(endpoint).toMatchObject({
      url: 'http://10.1.2.3:8080/deep/mcp?x=1',
      headers: { Authorization: 'Bearer tok-4711-secret', 'X-A': '${credential.k}' },
      origins: ['http://10.1.2.3:8080'],
    });
    expect(allowed(endpoint.url, endpoint)).toBe(true);
    expect(allowed('http://10.1.2.3:8080/other', endpoint)).toBe(true);
    expect(rig.redactor.clean('Bearer tok-4711-secret')).toBe('Bearer [redacted]');
  });

  it('is trusted for its origin alone', async () => {
    await start({ wiki: remote('http://localhost:3000/mcp'), public: remote('http://wiki.example/mcp') });
    const wiki = await endpointOf('wiki');
    expect(allowed('http://localhost:3000/x', wiki)).toBe(true);
    for (const url of [
      'http://localhost:3001/mcp',
      'https://localhost:3000/mcp',
      'http://127.0.0.1:3000/mcp',
      'http://10.0.0.1/',
    ]) {
      expect(allowed(url, wiki), url).toBe(false);
    }
    const plain = await endpointOf('public');
    expect(judgeAddress('10.0.0.9', 'http://wiki.example/mcp', plain.policy).allowed).toBe(true);
    expect(judgeAddress('169.254.169.254', 'http://wiki.example/mcp', plain.policy).allowed).toBe(false);
  });

  it('follows the settings while a session is open', async () => {
    await start({ wiki: remote('http://10.1.2.3:8080/mcp') });
    const endpoint = await endpointOf('wiki');
    await rig.settings.update({
      persistent: { 'plugins.ml_commons.connector.restricted_ip_patterns': ['10\\.1\\..*'] },
    });
    expect(allowed(endpoint.url, endpoint)).toBe(false);
    await rig.settings.update({
      persistent: {
        'plugins.ml_commons.connector.restricted_ip_patterns': null,
        'plugins.ml_commons.trusted_connector_endpoints_regex': [],
      },
    });
    expect(allowed(endpoint.url, endpoint)).toBe(true);
  });

  it.each<[JsonObject, string]>([
    [{ url: 'https://h/mcp', headers: { A: '{env:MISSING}' } }, 'invalid_config'],
    [{ url: 'http://169.254.169.254/mcp' }, 'address_refused'],
    [{ type: 'sse', url: 'https://h/sse' }, 'invalid_config'],
  ])('is nowhere when it has a problem: %j', async (entry, code) => {
    await start({ wiki: entry });
    const error = await endpointOf('wiki').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error).toMatchObject({ code, delivered: 'no', statusCode: 502, retryable: false });
    expect((error as UpstreamError).message).toContain('Server "wiki" of /etc/tenon.json: ');
  });
});

describe('how a local server is started', () => {
  it('is told once, and audited with its exact arguments', async () => {
    await start({ files: { command: ['node', 'a b.js', '$HOME', ''], environment: { KEY: '{env:TOKEN}' } } });
    const files = await rig.connectors.load('files');
    expect(await rig.connectors.localServer(files)).toEqual({
      command: 'node',
      args: ['a b.js', '$HOME', ''],
      cwd: '/etc',
      environment: { KEY: 'tok-4711-secret' },
    });
    expect(await rig.audit()).toEqual(['process.start attempted files system']);
    const [line] = rig.lines.filter((text) => text.includes('process.start'));
    expect(JSON.parse(line ?? '{}').detail).toBe('{"argv":["node","a b.js","$HOME",""],"cwd":"/etc"}');
    expect(rig.lines.join()).not.toContain('tok-4711');
  });

  it('is refused where there is a problem, or no local server', async () => {
    await start({ bad: { command: [] }, wiki: remote('https://wiki.example/mcp') });
    for (const id of ['bad', 'wiki']) {
      await expect(rig.connectors.localServer(await rig.connectors.load(id))).rejects.toBeInstanceOf(UpstreamError);
    }
    const local = rig.connectors.mcpEndpoint(await rig.connectors.load('bad'));
    await expect(local).rejects.toMatchObject({ code: 'invalid_config' });
    expect(await rig.audit()).toEqual([]);
  });
});

describe('agents', () => {
  it('are joined by name, by id, or all, in order of declaration', async () => {
    await start({
      a: { command: ['x'], agents: ['helper'] },
      b: remote('https://b/mcp', { agents: ['*'] }),
      c: { command: ['x'] },
      d: { command: ['x'], agents: ['agent-1', 'other'] },
    });
    expect(rig.connectors.joinedTo({ id: 'agent-1', name: 'helper' })).toEqual(['a', 'b', 'd']);
    expect(rig.connectors.joinedTo({ id: 'agent-2', name: 'nobody' })).toEqual(['b']);
    expect(rig.connectors.joinsAgents(['c', 'd'])).toBe(true);
    expect(rig.connectors.joinsAgents(['c', 'unknown'])).toBe(false);
  });
});
