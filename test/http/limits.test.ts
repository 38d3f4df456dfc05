import { fastify } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { FORBIDDEN } from '../../src/errors.ts';
import { errorsPlugin } from '../../src/http/plugins/errors.ts';
import { limitsPlugin } from '../../src/http/plugins/limits.ts';
import { createRouteTable } from '../../src/http/route-table.ts';
import { createLimits, type Limits } from '../../src/identity/limits.ts';
import type { Principal } from '../../src/identity/principal.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import { userPrincipal } from '../support/principals.ts';

const P = 'plugins.ml_commons.limits.';
const ANN = userPrincipal('ann');
const KEY_OF_ANN: Principal = { ...ANN, id: 'key:1', kind: 'api_key', owner: 'user:ann' };
const OPENID_ANN: Principal = { ...ANN, id: 'token:https://id.example|7', kind: 'token' };
const KEY_OF_OPENID_ANN: Principal = { ...OPENID_ANN, id: 'key:2', kind: 'api_key', owner: OPENID_ANN.id };
const BOB = userPrincipal('bob', { roles: ['robots', 'readers'] });

const closing: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(closing.splice(0).map((close) => close())));

function limitsOf(values: Record<string, string>, now?: () => number): Limits {
  const names = new Map(Object.entries(values).map(([name, value]) => [P + name, value]));
  return createLimits({ settings: { text: (name) => names.get(name) }, ...(now && { now }) });
}

/** A promise that is settled from outside. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe('requests a minute', () => {
  async function edge(values: Record<string, string>): Promise<(who: string, path?: string) => Promise<Response>> {
    const people: Record<string, Principal> = { ann: ANN, key: KEY_OF_ANN, bob: BOB, stranger: OPENID_ANN };
    const app = fastify();
    await app.register(errorsPlugin, { redactor: createRedactor(), routes: createRouteTable() });
    app.decorateRequest('principal', null as unknown as Principal);
    app.addHook('onRequest', async (request) => {
      request.principal = people[String(request.headers['x-who'])] ?? ANN;
    });
    await app.register(limitsPlugin, { limits: limitsOf(values) });
    app.addHook('preParsing', async (request) => {
      if (request.url === '/closed') throw new FORBIDDEN('not yours');
    });
    app.get('/thing', () => ({ ok: true }));
    app.get('/closed', () => ({ ok: true }));
    app.get('/healthz', { config: { public: true } }, () => ({ ok: true }));
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    closing.push(() => app.close());
    return (who, path = '/thing') => fetch(url + path, { headers: { 'x-who': who } });
  }

  it('are counted for each user, whatever key the user comes with', async () => {
    const get = await edge({ requests_per_minute: '2' });
    expect([(await get('ann')).status, (await get('key')).status]).toEqual([200, 200]);
    for (const who of ['ann', 'key']) {
      const refused = await get(who);
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(60);
      expect([...refused.headers.keys()].filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
      expect(await refused.json()).toMatchObject({
        status: 429,
        error: {
          type: 'rejected_execution_exception',
          reason: expect.stringMatching(
            /^The limit of 2 requests of this caller a minute .*limits\.requests_per_minute/,
          ),
        },
      });
    }
    expect((await get('bob')).status).toBe(200);
  });

  it('do not limit probes, nor anything while no limit is set', async () => {
    const limited = await edge({ requests_per_minute: '1' });
    for (let round = 0; round < 3; round += 1) expect((await limited('ann', '/healthz')).status).toBe(200);
    expect((await limited('ann')).status).toBe(200);
    const free = await edge({ requests_per_minute: '0' });
    for (let round = 0; round < 20; round += 1) expect((await free('ann')).status).toBe(200);
  });

  it('are limited in another way for a user, or for a role', async () => {
    const get = await edge({ requests_per_minute: '1', 'user.ann.requests_per_minute': '3' });
    const statuses = [];
    for (const who of ['ann', 'ann', 'ann', 'ann', 'bob', 'bob']) statuses.push((await get(who)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 200, 429]);
    expect(limitsOf({ 'role.robots.requests_per_minute': '5' }).of(BOB, 'requests_per_minute')).toEqual({
      value: 5,
      setting: `${P}role.robots.requests_per_minute`,
    });
  });

  it('count where they are refused or lead nowhere', async () => {
    for (const [path, status] of [
      ['/closed', 403],
      ['/unknown', 400],
    ] as const) {
      const get = await edge({ requests_per_minute: '2' });
      const statuses = [];
      for (let round = 0; round < 3; round += 1) statuses.push((await get('ann', path)).status);
      expect(statuses).toEqual([status, status, 429]);
      expect((await get('ann')).status).toBe(429);
    }
  });

  it('are nothing that a user of a provider shares with the user of the store of that name', async () => {
    const get = await edge({ requests_per_minute: '1' });
    expect([(await get('ann')).status, (await get('stranger')).status, (await get('ann')).status]).toEqual([
      200, 200, 429,
    ]);
    const limits = limitsOf({ requests_per_minute: '1', 'user.ann.requests_per_minute': '3' });
    const limitOf = (principal: Principal) => limits.of(principal, 'requests_per_minute')?.value;
    expect([ANN, KEY_OF_ANN, OPENID_ANN, KEY_OF_OPENID_ANN].map(limitOf)).toEqual([3, 3, 1, 1]);
    expect(limits.keyOf(KEY_OF_OPENID_ANN)).toBe(OPENID_ANN.id);
  });

  it('follow the most generous role, and 0 is without limit', () => {
    const both = { 'role.robots.requests_per_minute': '5', 'role.readers.requests_per_minute': '9' };
    expect(limitsOf(both).of(BOB, 'requests_per_minute')?.value).toBe(9);
    expect(
      limitsOf({ ...both, 'role.robots.requests_per_minute': '0' }).of(BOB, 'requests_per_minute'),
    ).toBeUndefined();
    expect(limitsOf({ ...both, 'user.bob.requests_per_minute': '1' }).of(BOB, 'requests_per_minute')?.value).toBe(1);
    expect(limitsOf({}).of(BOB, 'requests_per_minute')).toBeUndefined();
  });
});

describe('executions', () => {
  it('at the same time are limited for a caller, whatever the agent, and freed however they end', async () => {
    const limits = limitsOf({ concurrent_executions: '2' });
    const { opened, open } = gate();
    const first = limits.execution(ANN, 'one', () => opened);
    const second = limits.execution(KEY_OF_ANN, 'two', async () => {
      await opened;
      throw new Error('the run failed');
    });
    await expect(limits.execution(ANN, 'three', async () => 'ran')).rejects.toMatchObject({
      statusCode: 429,
      retryAfterMs: 1000,
      message: expect.stringContaining(
        `The limit of 2 executions of this caller at the same time is reached (setting ${P}`,
      ),
    });
    expect(await limits.execution(BOB, 'one', async () => 'ran')).toBe('ran');
    open();
    await first;
    await expect(second).rejects.toThrow('the run failed');
    expect(await limits.execution(ANN, 'three', async () => 'ran')).toBe('ran');
  });

  it('that were admitted before are counted, not refused', async () => {
    const limits = limitsOf({ concurrent_executions: '1', agent_executions_per_minute: '1' });
    const { opened, open } = gate();
    const first = limits.execution(ANN, 'one', () => opened, { admitted: true });
    const second = limits.execution(ANN, 'one', () => opened, { admitted: true });
    await expect(limits.execution(ANN, 'two', async () => 'ran')).rejects.toMatchObject({ statusCode: 429 });
    open();
    await Promise.all([first, second]);
    expect(await limits.execution(ANN, 'one', async () => 'ran')).toBe('ran');
  });

  it('at the same time are limited for an agent, whoever calls it', async () => {
    const limits = limitsOf({ agent_concurrent_executions: '1' });
    const { opened, open } = gate();
    const first = limits.execution(ANN, 'one', () => opened);
    await expect(limits.execution(BOB, 'one', async () => 'ran')).rejects.toThrow('agent_concurrent_executions');
    expect(await limits.execution(BOB, 'two', async () => 'ran')).toBe('ran');
    open();
    await first;
    expect(await limits.execution(BOB, 'one', async () => 'ran')).toBe('ran');
  });

  it('of an agent are limited within a minute', async () => {
    let time = 1_000_000;
    const limits = limitsOf({ agent_executions_per_minute: '2' }, () => time);
    const run = (agent: string) => limits.execution(ANN, agent, async () => 'ran');
    await run('one');
    time += 20_000;
    await run('one');
    await expect(run('one')).rejects.toMatchObject({ retryAfterMs: 40_000, message: expect.stringContaining('40 s') });
    expect(await run('two')).toBe('ran');
    time += 40_000;
    expect(await run('one')).toBe('ran');
  });

  it('that are refused for one reason take nothing of the other limits', async () => {
    const limits = limitsOf({ concurrent_executions: '1', agent_executions_per_minute: '2' });
    const { opened, open } = gate();
    const first = limits.execution(ANN, 'one', () => opened);
    await expect(limits.execution(ANN, 'one', async () => 'ran')).rejects.toThrow('concurrent_executions');
    open();
    await first;
    expect(await limits.execution(ANN, 'one', async () => 'ran')).toBe('ran');
  });
});

describe('an agent beyond its limit', () => {
  let rig: Rig;
  const put = (name: string, value: unknown) =>
    rig.send('PUT', '/_cluster/settings', { transient: { [P + name]: value as string } });

  it('answers 429 with the standard envelope and the time to wait, and stores no question', async () => {
    rig = await openRig('one', 'two');
    closing.push(() => rig.dispose());
    expect((await put('agent_executions_per_minute', 1)).status).toBe(200);
    const agent = await rig.agent([]);
    expect((await rig.ask(agent, 'first?')).status).toBe(200);
    const refused = await rig.send('POST', `/agents/${agent}/_execute`, { parameters: { question: 'second?' } });
    expect(refused).toMatchObject({
      status: 429,
      body: {
        status: 429,
        error: {
          root_cause: [{ type: 'rejected_execution_exception' }],
          type: 'rejected_execution_exception',
          reason: expect.stringContaining(`${P}agent_executions_per_minute`),
        },
      },
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(1);
    expect(rig.llm.requests).toHaveLength(1);
    expect((await rig.ok('GET', '/memory')).memories).toHaveLength(1);
  });

  it('is asked no more than its model may be', async () => {
    rig = await openRig('one', 'two');
    closing.push(() => rig.dispose());
    await rig.ok('PUT', `/models/${rig.modelId}`, { rate_limiter: { limit: '1', unit: 'HOURS' } });
    const agent = await rig.agent([]);
    expect((await rig.ask(agent, 'first?')).status).toBe(200);
    const run = await rig.send('POST', `/agents/${agent}/_execute`, { parameters: { question: 'second?' } });
    const text = 'Request is throttled at model level.';
    expect(run).toMatchObject({ status: 429, body: { error: { type: 'OpenSearchStatusException', details: text } } });
    expect(Number(run.headers.get('retry-after'))).toBeGreaterThan(3000);
    const direct = await rig.send('POST', `/models/${rig.modelId}/_predict`, { parameters: { prompt: 'third?' } });
    expect(direct).toMatchObject({ status: 429, body: { error: { type: 'status_exception', reason: text } } });
    expect(rig.llm.requests).toHaveLength(1);
    await rig.ok('PUT', `/models/${rig.modelId}`, { rate_limiter: { limit: 100, unit: 'SECONDS' } });
    expect((await rig.ask(agent, 'fourth?')).status).toBe(200);
  });

  it('and every other route answer 429 once the caller made its requests, but for the probes', async () => {
    rig = await openRig();
    closing.push(() => rig.dispose());
    await put('requests_per_minute', 2);
    const statuses = [];
    for (let round = 0; round < 3; round += 1) statuses.push((await rig.send('GET', '/memory')).status);
    expect(statuses).toEqual([200, 200, 429]);
    expect((await fetch(`${rig.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${rig.url}/readyz`)).status).toBe(200);
  });

  it('has limits that are whole numbers', async () => {
    rig = await openRig();
    closing.push(() => rig.dispose());
    for (const value of [-1, 1.5, 'many', true]) {
      expect(await put('requests_per_minute', value)).toMatchObject({
        status: 400,
        body: { error: { reason: expect.stringContaining(`${P}requests_per_minute`) } },
      });
    }
    expect((await put('user.ann.requests_per_minute', 'x')).status).toBe(400);
    expect((await put('role.all_access.concurrent_executions', 3)).status).toBe(200);
  });
});
