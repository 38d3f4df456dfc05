import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { chatConnector } from '../support/rest.ts';
import { found, reasonOf, startRig } from './rig.ts';

const rig = startRig();
const PREFIX = 'plugins.ml_commons.';

async function set(settings: Record<string, string | string[] | boolean | null>): Promise<void> {
  const transient = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`${PREFIX}${name}`, value]));
  const answer = await rig.app.request('PUT', '/_cluster/settings', { transient });
  expect(answer.status).toBe(200);
}

const create = (url: string, more: JsonObject = {}) =>
  rig.send('POST', '/connectors/_create', { name: 'x', version: 1, protocol: 'mcp_streamable_http', url, ...more });

const NEVER = [
  'http://169.254.169.254/latest',
  'https://169.254.169.254/',
  'http://169.254.170.2/',
  'http://metadata.google.internal/',
  'https://METADATA.google.internal/computeMetadata/v1/',
  'http://[fe80::1]/',
  'http://[fd00:ec2::254]/',
  'http://100.100.100.200/',
  'http://0.0.0.0:9200/',
  'http://[::]/',
];
const MISSPELT = [
  'file:///etc/passwd',
  'gopher://x',
  'ftp://127.0.0.1/',
  'javascript:alert(1)',
  'data:text/plain,x',
  'http://2852039166/',
  'http://0xa9fea9fe/',
  'http://0251.0376.0251.0376/',
  'http://169.254.43518/',
  'http://[::ffff:169.254.169.254]/',
  'http://2130706433/',
  'http://127.1/',
  'http://0x7f.1/',
  'http://127.0.0.1./',
  'http://localhost./',
  'http://１２７.0.0.1/',
  'http:\\\\169.254.169.254/',
  'http://169.254.169.254\\@example.com/',
  ' http://169.254.169.254/',
  'http:169.254.169.254/',
  '//169.254.169.254/',
  'http://exa mple.com/',
];
const PRIVATE = [
  'http://10.0.0.1/',
  'https://192.168.1.1/',
  'http://172.16.0.1:8080/',
  'https://[fd12::1]/',
  'http://127.0.0.2/',
];

describe('an address a connector may never have', () => {
  it.each([...NEVER, ...MISSPELT, ...PRIVATE])(
    'is refused at create, at update and inside a model: %s',
    async (url) => {
      const server = await rig.serve();
      const id = await rig.connector(server.origin);
      const connector = chatConnector(url);
      const model = { name: 'm', function_name: 'remote', connector };
      const answers = [
        await create(url),
        await rig.send('PUT', `/connectors/${id}`, { url }),
        await rig.send('POST', '/connectors/_create', connector),
        await rig.send('POST', '/models/_register', model),
      ];
      expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
      for (const answer of answers)
        expect(reasonOf(answer)).toMatch(/^Connector URL is not matching the trusted connector endpoint regex/);
      expect(await rig.ok('GET', `/connectors/${id}`)).toMatchObject({ url: server.origin });
    },
  );

  it.each(NEVER)('stays refused whatever the lists say: %s', async (url) => {
    await set({
      trusted_connector_endpoints_regex: ['.*'],
      trusted_connector_private_endpoints_regex: ['.*'],
      'connector.private_ip_enabled': true,
    });
    try {
      const answer = await create(url);
      expect(answer.status).toBe(400);
      expect(reasonOf(answer)).toMatch(/no setting allows it/);
    } finally {
      await set({
        trusted_connector_endpoints_regex: null,
        trusted_connector_private_endpoints_regex: null,
        'connector.private_ip_enabled': null,
      });
    }
  });

  it.each([
    'http://user:pw-CANARY@127.0.0.1/',
    'https://user:pw-CANARY@example.com/',
    'https://pw-CANARY@example.com/',
  ])('is one with a user name or password, which is not repeated: %s', async (url) => {
    const answer = await create(url);
    expect(answer.status).toBe(400);
    expect(reasonOf(answer)).toMatch(/user name or password.*credential/);
    expect(found(`${rig.said()}${await rig.databaseOctets()}`, 'pw-CANARY')).toEqual([]);
  });

  it('is not reached by parameters that fill the host', async () => {
    const evil: [string, JsonObject][] = [
      ['https://${parameters.host}/', { host: '169.254.169.254' }],
      ['http://${parameters.host}', { host: 'metadata.google.internal' }],
      ['https://example.com${parameters.tail}', { tail: '@169.254.169.254' }],
      ['${parameters.url}', { url: 'file:///etc/passwd' }],
    ];
    for (const [url, parameters] of evil) expect((await create(url, { parameters })).status).toBe(400);
  });

  it('is not reached by the parameters of a call', async () => {
    rig.llm.reset();
    const connector = {
      ...chatConnector(`${rig.llm.origin}/v1/\${parameters.path}`),
      parameters: { model: 'test', path: 'chat/completions' },
    };
    const { model_id: id } = await rig.ok('POST', '/models/_register?deploy=true', {
      name: 'm',
      function_name: 'remote',
      connector,
    });
    for (const path of ['@169.254.169.254/', '//169.254.169.254/', '../../x', 'https://169.254.169.254']) {
      await rig.send('POST', `/models/${id}/_predict`, { parameters: { prompt: 'x', path } });
    }
    for (const { headers } of rig.llm.requests) expect(headers.host).toBe(rig.llm.origin.slice('http://'.length));
  });
});

describe('a private address', () => {
  it('is refused with the setting that allows it, and allowed by it', async () => {
    const url = 'http://10.20.30.40:8080';
    const refused = await create(url);
    expect(refused.status).toBe(400);
    const pattern =
      /add ("(?:[^"\\]|\\.)*") to the list (plugins\.ml_commons\.trusted_connector_private_endpoints_regex)/.exec(
        reasonOf(refused),
      );
    expect(reasonOf(refused)).toContain('TENON_TRUSTED_PRIVATE_ENDPOINTS');
    await set({ trusted_connector_private_endpoints_regex: [JSON.parse(pattern?.[1] ?? '""') as string] });
    try {
      expect((await create(url)).status).toBe(200);
      expect((await create('http://10.20.30.41:8080')).status).toBe(400);
      expect((await create('http://10.20.30.40:8081')).status).toBe(400);
    } finally {
      await set({ trusted_connector_private_endpoints_regex: null });
    }
  });
});

describe('the policy in force', () => {
  it('is asked at each connect, not only when a connector is made', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    await set({ 'connector.restricted_ip_patterns': ['127\\..*'] });
    try {
      const answer = await rig.call(id, 'echo', { text: 'x' });
      expect(answer.status).toBe(400);
      expect(reasonOf(answer)).toMatch(/refused by plugins\.ml_commons\.connector\.restricted_ip_patterns/);
      expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'address_refused' } });
      expect(await rig.connections(agent)).toMatchObject([{ status: 'failed', error: { code: 'address_refused' } }]);
      expect(server.requests).toEqual([]);
    } finally {
      await set({ 'connector.restricted_ip_patterns': null });
    }
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
  });

  it('ends the use of a session that is already open', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    await set({ trusted_connector_endpoints_regex: ['https://elsewhere\\.example/.*'] });
    const before = server.of('tools/call').length;
    try {
      await rig.call(id, 'echo', { text: 'x' });
      expect(server.of('tools/call').length).toBe(before);
    } finally {
      await set({ trusted_connector_endpoints_regex: null });
    }
  });

  it('holds for the addresses a server redirects to', async () => {
    for (const location of ['http://169.254.169.254/latest', 'http://10.0.0.1/', 'http://metadata.google.internal/']) {
      const server = await rig.serve({ on: { '*': { status: 307, headers: { Location: location } } } });
      const id = await rig.connector(server.origin);
      expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(502);
      expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'address_refused' } });
      expect(server.requests.length).toBeLessThanOrEqual(2);
    }
  });

  it('an empty list refuses everything, in the documented words', async () => {
    await set({ trusted_connector_endpoints_regex: [] });
    try {
      const answer = await create('https://example.com');
      expect(answer.status).toBe(400);
      expect(reasonOf(answer)).toContain(
        'Trusted connector endpoints regex is not configured. Please set plugins.ml_commons.trusted_connector_endpoints_regex.',
      );
    } finally {
      await set({ trusted_connector_endpoints_regex: null });
    }
  });
});
