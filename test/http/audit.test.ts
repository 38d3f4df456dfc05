import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import { startApp, type TestAnswer } from '../support/build-app.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';

const P = 'plugins.ml_commons.';
const CREDENTIAL = 'credential-canary-1';

let rig: Rig;
let server: FakeMcpServer;
let connector: string;
beforeAll(async () => {
  rig = await openRig();
  server = await rig.server();
  connector = await rig.connector('weather', server.origin, {
    credential: { key: CREDENTIAL },
    headers: { 'X-Key': '${credential.key}' },
  });
});
afterAll(() => rig?.dispose());

interface Hit {
  readonly _index: string;
  readonly _id: string;
  readonly _score: number | null;
  readonly _source: JsonObject;
  readonly sort?: number[];
}
interface Found {
  readonly total: number;
  readonly maxScore: number | null;
  readonly hits: Hit[];
  readonly sources: JsonObject[];
}

async function search(body: JsonObject): Promise<Found> {
  const { hits } = (await rig.ok('POST', '/audit/_search', body)) as unknown as {
    hits: { total: { value: number }; max_score: number | null; hits: Hit[] };
  };
  return {
    total: hits.total.value,
    maxScore: hits.max_score,
    hits: hits.hits,
    sources: hits.hits.map(({ _source }) => _source),
  };
}

function echo(text: string): Promise<JsonObject> {
  return rig.ok('POST', `/connectors/${connector}/tools/echo/_execute`, { arguments: { text } });
}

describe('the audit trail', () => {
  it('has a row for a change of a record and for an external call, with who, what and how it ended', async () => {
    await echo('hello');
    server.on('tools/call', { result: { content: [], isError: true } });
    await echo('again');
    server.on('tools/call', 'normal');
    const created = await search({ query: { term: { connector_id: connector } }, sort: { time: 'asc' } });
    expect(created.sources.map(({ action, outcome }) => [action, outcome])).toEqual([
      ['connector.create', 'ok'],
      ['tool_call', 'ok'],
      ['tool_call', 'tool_error'],
    ]);
    expect(created.sources[1]).toEqual({
      time: expect.any(Number),
      principal: 'open',
      action: 'tool_call',
      outcome: 'ok',
      connector_id: connector,
      tool: 'echo',
      arguments_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      duration_ms: expect.any(Number),
      bytes: expect.any(Number),
    });
    expect(created.sources[1]?.arguments_hash).not.toBe(created.sources[2]?.arguments_hash);
  });

  it('names the agent of a call', async () => {
    const agent = await rig.agent([connector]);
    rig.llm.reset({ tool: 'echo', args: '{"text":"hi"}' }, 'done');
    await rig.ask(agent, 'hi?');
    const { sources } = await search({
      query: { bool: { filter: [{ term: { agent_id: agent } }, { term: { action: 'tool_call' } }] } },
    });
    expect(sources).toMatchObject([{ tool: 'echo', connector_id: connector, outcome: 'ok' }]);
  });

  it('names the settings that were changed, not their values', async () => {
    await rig.ok('PUT', '/_cluster/settings', {
      transient: { plugins: { ml_commons: { some_text: 'value-canary-2' } } },
    });
    const { sources } = await search({ query: { term: { action: 'settings.update' } }, size: 1 });
    expect(sources).toMatchObject([{ principal: 'open', outcome: 'ok', detail: `${P}some_text` }]);
    expect(JSON.stringify(await search({ size: 1000 }))).not.toContain('canary');
  });

  it('keeps arguments and results only where the operator asked, cut and without secrets', async () => {
    const payloads = (value: boolean | null) =>
      rig.ok('PUT', '/_cluster/settings', { transient: { [`${P}audit.payloads`]: value } });
    const newest = async () => (await search({ query: { term: { action: 'tool_call' } }, size: 1 })).sources[0] ?? {};
    await echo('unwanted');
    expect(await newest()).not.toHaveProperty('arguments');
    await payloads(true);
    await echo(`wanted ${CREDENTIAL}`);
    expect(await newest()).toMatchObject({
      arguments: '{"text":"wanted [redacted]"}',
      result: expect.stringContaining('wanted [redacted]'),
    });
    await echo('x'.repeat(100_000));
    const long = await newest();
    expect([String(long.arguments).length, String(long.result).length]).toEqual([16_384, 16_384]);
    await payloads(null);
    await echo('unwanted');
    expect(await newest()).not.toHaveProperty('result');
    expect(rig.lines.filter((line) => line.includes('tool_call')).join('')).not.toContain('wanted');
  });
});

describe('_search', () => {
  it('answers in the search shape, newest first, by GET and POST, with and without a body', async () => {
    for (const method of ['GET', 'POST']) {
      const answer = await rig.ok(method, '/audit/_search');
      expect(answer).toMatchObject({
        took: expect.any(Number),
        timed_out: false,
        _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
        hits: { total: { relation: 'eq' }, max_score: 1 },
      });
    }
    const { hits, total } = await search({ query: { match_all: {} }, size: 2 });
    expect(hits).toHaveLength(2);
    expect(total).toBeGreaterThan(2);
    expect(hits[0]).toMatchObject({ _index: '.tenon-audit', _score: 1, _id: expect.any(String) });
    expect(Number(hits[0]?._source.time)).toBeGreaterThanOrEqual(Number(hits[1]?._source.time));
    expect((await search({ size: 1, from: 1 })).hits[0]?._id).toBe(hits[1]?._id);
    expect((await search({ query: { term: { _id: hits[1]?._id ?? '' } } })).total).toBe(1);
  });

  it('scores as the contract says', async () => {
    expect((await search({ query: { bool: { filter: { match_all: {} } } } })).maxScore).toBe(0);
    const sorted = await search({ size: 1, sort: [{ time: { order: 'asc' } }] });
    expect(sorted.maxScore).toBeNull();
    expect(sorted.hits[0]).toMatchObject({ _score: null, sort: [sorted.hits[0]?._source.time] });
    expect((await search({ query: { term: { action: 'nothing' } } })).maxScore).toBeNull();
  });

  it.each<[body: JsonObject, named: string]>([
    [{ query: { wildcard: { action: 'x*' } } }, '[wildcard]'],
    [{ query: { bool: { must: { match: { action: 'x' } } } } }, '[match]'],
    [{ query: { bool: { minimum_should_match: 1 } } }, '[bool.minimum_should_match]'],
    [{ query: { term: { password: 'x' } } }, '[password]'],
    [{ query: { term: { action: { value: 'x', boost: 2 } } } }, '[term.action]'],
    [{ query: { term: { action: ['x'] } } }, '[action]'],
    [{ query: { term: {} } }, '[term]'],
    [{ query: { terms: { action: 'x' } } }, '[terms]'],
    [{ query: { range: { action: { gt: 'a' } } } }, '[range] of [action]'],
    [{ query: { range: { bytes: { over: 1 } } } }, '[range.over]'],
    [{ query: { range: { bytes: { gt: 1.5 } } } }, '[range.bytes.gt]'],
    [{ query: { range: { time: { gte: 'now-1d' } } } }, '[range.time.gte]'],
    [{ query: { range: { time: {} } } }, '[range] of [time]'],
    [{ query: { exists: {} } }, '[exists]'],
    [{ query: { match_all: {}, term: { action: 'x' } } }, '[query]'],
    [{ query: [] }, '[query]'],
    [{ query: { terms: { action: Array.from({ length: 2001 }, () => 'x') } } }, '[query]'],
    [{ aggs: {} }, '[aggs]'],
    [{ sort: { bytes: 'asc' } }, '[sort]'],
    [{ size: 1001 }, '[size]'],
    [{ size: -1 }, '[size]'],
    [{ from: 9999, size: 10 }, '[from]'],
  ])('refuses what it does not serve (case %#)', async (body, named) => {
    expect(await rig.send('POST', '/audit/_search', body)).toMatchObject({
      status: 400,
      body: { error: { type: 'illegal_argument_exception', reason: expect.stringContaining(named) } },
    });
  });

  it('refuses a query that is nested too deep', async () => {
    let query: JsonObject = { match_all: {} };
    for (let depth = 0; depth < 20; depth += 1) query = { bool: { must: query } };
    expect(await rig.send('POST', '/audit/_search', { query })).toMatchObject({
      status: 400,
      body: { error: { reason: expect.stringContaining('nested deeper') } },
    });
  });
});

describe('_export', () => {
  async function exported(query = ''): Promise<{ type: string | null; rows: JsonObject[] }> {
    const answer = await fetch(`${rig.url}/_plugins/_ml/audit/_export${query}`);
    expect(answer.status).toBe(200);
    const lines = (await answer.text()).split('\n');
    expect(lines.pop()).toBe('');
    return { type: answer.headers.get('content-type'), rows: lines.map((line) => JSON.parse(line) as JsonObject) };
  }

  it('gives every row as a JSON line, oldest first, and leaves a row of its own', async () => {
    const { total } = await search({ size: 0 });
    const { type, rows } = await exported();
    expect(type).toBe('application/x-ndjson');
    expect(rows.filter(({ action }) => action !== 'audit.export')).toHaveLength(total);
    const times = rows.map(({ time }) => Number(time));
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(rows[0]).toMatchObject({ id: expect.any(String), principal: 'open' });
    expect((await search({ query: { term: { action: 'audit.export' } } })).total).toBe(1);
    expect(JSON.stringify(rows)).not.toContain('canary');
  });

  it('gives the rows of a range of times', async () => {
    const { rows } = await exported();
    const time = Number(rows[2]?.time);
    const later = rows.filter((row) => Number(row.time) >= time).length;
    expect((await exported(`?from=${time}&to=${time + 1}`)).rows.every((row) => row.time === time)).toBe(true);
    expect((await exported(`?from=${new Date(time).toISOString()}`)).rows.length).toBeGreaterThanOrEqual(later);
    expect((await exported('?to=1')).rows).toEqual([]);
  });

  it.each(['from=yesterday', 'to=', 'from=1.5'])('refuses %s', async (query) => {
    const answer = await rig.send('GET', `/audit/_export?${query}`);
    expect(answer).toMatchObject({ status: 400, body: { error: { type: 'illegal_argument_exception' } } });
  });

  it('refuses what it does not know', async () => {
    expect((await rig.send('GET', '/audit/_export?principal=ann')).status).toBe(400);
  });
});

describe('who reads it', () => {
  it('is who was given the permission, by search and by export', async () => {
    const admin = { authorization: 'Bearer the-admin-key' };
    const app = await startApp({ config: { apiKey: 'the-admin-key' } });
    try {
      const password = 'correct horse 1 Battery!';
      for (const [name, role] of [
        ['ann', 'ml_full_access'],
        ['olga', 'tenon_operator'],
      ]) {
        const body = { password, opendistro_security_roles: [role] };
        const made = await app.request('PUT', `/_plugins/_security/api/internalusers/${name}`, body, admin);
        expect([200, 201]).toContain(made.status);
      }
      const as = (name: string, path: string): Promise<TestAnswer> => {
        const authorization = `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
        return app.request('GET', `/_plugins/_ml/audit/${path}`, undefined, { authorization });
      };
      for (const path of ['_search', '_export']) {
        expect((await as('ann', path)).status).toBe(403);
        const seen = await as('olga', path);
        expect(seen.status).toBe(200);
        expect(seen.text).not.toContain(password);
      }
      expect((await as('olga', '_export')).text).toContain('"principal":"user:ann"');
    } finally {
      await app.close();
    }
  });
});
