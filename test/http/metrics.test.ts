import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { createEventBus } from '../../src/telemetry/event-bus.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import { sample, seriesOf } from '../support/prometheus.ts';

describe('the metrics of a server', () => {
  let rig: Rig;
  beforeEach(async () => {
    rig = await openRig();
  });
  afterEach(() => rig.dispose());

  async function scrape(): Promise<string> {
    const response = await fetch(`${rig.url}/metrics`);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ]);
    return response.text();
  }

  it('count requests by the template of their route', async () => {
    for (const id of ['a', 'b', 'c']) await rig.send('GET', `/connectors/${id}`);
    await fetch(`${rig.url}/no/such/path/${'x'.repeat(50)}`);
    const text = await scrape();
    const route = '/_plugins/_ml/connectors/:connector_id';
    expect(sample(text, 'tenon_http_requests_total', { method: 'GET', route, status: '404' })).toBe(3);
    expect(sample(text, 'tenon_http_request_duration_seconds_count', { method: 'GET', route })).toBe(3);
    expect(text).toContain('route="none"');
    expect(text).not.toContain('xxxx');
  });

  it('tell what the process uses', async () => {
    const series = seriesOf(await scrape());
    for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_heap_size_used_bytes']) {
      expect(series.get(name), name).toBeGreaterThan(0);
    }
    const started = series.get('process_start_time_seconds') ?? 0;
    expect(Math.abs(Date.now() / 1000 - process.uptime() - started)).toBeLessThan(2);
  });

  it('show each connection in exactly one state', async () => {
    const server = await rig.server();
    const id = await rig.connector('weather', server.origin);
    const states = async () => {
      const text = await scrape();
      return ['idle', 'connecting', 'connected', 'failed', 'auth_required', 'disabled'].filter(
        (state) => sample(text, 'tenon_mcp_connection_state', { connector_id: id, name: 'weather', state }) === 1,
      );
    };
    expect(await states()).toEqual(['idle']);
    await rig.ok('GET', `/connectors/${id}/tools`);
    expect(await states()).toEqual(['connected']);
    const text = await scrape();
    const labels = { connector_id: id, name: 'weather' };
    expect(sample(text, 'tenon_mcp_tools', labels)).toBe(1);
    expect(sample(text, 'tenon_mcp_breaker_state', { ...labels, state: 'closed' })).toBe(1);
    expect(sample(text, 'tenon_mcp_sessions_open')).toBe(1);
    expect(
      Math.abs(Date.now() / 1000 - (sample(text, 'tenon_mcp_connection_since_seconds', labels) ?? 0)),
    ).toBeLessThan(60);
    await server.stop();
    await rig.ok('GET', `/connectors/${id}/_status?probe=true`);
    expect(await states()).toEqual(['failed']);
    await rig.ok('POST', `/connectors/${id}/_disable`);
    expect(await states()).toEqual(['disabled']);
    await server.start();
    await rig.ok('DELETE', `/connectors/${id}`);
    expect(await scrape()).not.toContain(id);
  });

  it('count attempts, calls, runs and calls of models by what became of them', async () => {
    const server = await rig.server({
      tools: [{ name: 'echo', inputSchema: { type: 'object' } }],
      on: { 'tools/call': ['normal', { result: { content: [], isError: true } }, { reset: true }] },
    });
    const id = await rig.connector('weather', server.origin);
    const call = () => rig.send('POST', `/connectors/${id}/tools/echo/_execute`, {});
    for (const status of [200, 200, 502]) expect((await call()).status).toBe(status);
    await server.stop();
    await rig.send('POST', `/connectors/${id}/_reconnect`);
    await rig.send('GET', `/connectors/${id}/_status?probe=true`);
    rig.llm.reset('an answer');
    await rig.ask(await rig.agent([id]), 'hello');
    const text = await scrape();
    const calls = (outcome: string, code: string) =>
      sample(text, 'tenon_mcp_calls_total', { connector_id: id, outcome, code });
    expect([calls('ok', ''), calls('tool_error', ''), calls('unknown', 'outcome_unknown')]).toEqual([1, 1, 1]);
    expect(sample(text, 'tenon_mcp_call_duration_seconds_count', { connector_id: id })).toBe(3);
    const attempts = (outcome: string, code: string) =>
      sample(text, 'tenon_mcp_connect_attempts_total', { connector_id: id, outcome, code, background: 'false' });
    expect(attempts('ok', '')).toBe(1);
    expect(attempts('failed', 'connection_refused')).toBeGreaterThan(0);
    expect(sample(text, 'tenon_runs_total', { state: 'started' })).toBe(1);
    expect(sample(text, 'tenon_runs_total', { state: 'completed' })).toBe(1);
    expect(sample(text, 'tenon_model_calls_total', { outcome: 'ok', code: '' })).toBe(1);
  });

  it('count calls of models that fail', async () => {
    rig.llm.reset({ status: 500, body: { error: { message: 'no' } } });
    await rig.ask(await rig.agent([]), 'hello');
    const text = await scrape();
    expect(sample(text, 'tenon_model_calls_total', { outcome: 'failed', code: 'server_error' })).toBe(1);
    expect(sample(text, 'tenon_runs_total', { state: 'failed' })).toBe(1);
  });

  it('count calls of models that no agent makes', async () => {
    const predict = (parameters: JsonObject) => rig.send('POST', `/models/${rig.modelId}/_predict`, { parameters });
    rig.llm.reset('an answer', { status: 500, body: { error: { message: 'no' } } });
    const statuses = [await predict({ prompt: 'hi' }), await predict({ prompt: 'hi' }), await predict({})].map(
      ({ status }) => status,
    );
    expect(statuses).toEqual([200, 500, 400]);
    const text = await scrape();
    const count = (outcome: string, code: string) => sample(text, 'tenon_model_calls_total', { outcome, code });
    expect([count('ok', ''), count('failed', 'server_error')]).toEqual([1, 1]);
    expect(text).toMatch(/^tenon_model_calls_total\{outcome="refused",code="[^"]+"\} 1$/m);

    const gone = new AbortController();
    rig.llm.reset({ text: 'too late', hold: new Promise<void>(() => undefined) });
    const asked = rig.llm.requests.length;
    const left = fetch(`${rig.url}/_plugins/_ml/models/${rig.modelId}/_predict`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ parameters: { prompt: 'hi' } }),
      signal: gone.signal,
    });
    await expect.poll(() => rig.llm.requests.length).toBe(asked + 1);
    gone.abort();
    await expect(left).rejects.toThrow();
    await expect
      .poll(async () => sample(await scrape(), 'tenon_model_calls_total', { outcome: 'cancelled', code: '' }))
      .toBe(1);
  });
});

describe('the number of series', () => {
  const facts = (n: number, name = `name ${n}`) => ({
    connector_id: `c${n}`,
    name,
    status: 'failed',
    since: 5000,
    tool_count: n,
    breaker: { state: 'open' },
  });
  const create = () => createMetrics({ events: createEventBus({ now: Date.now }) });

  it('is bounded, however many connectors there are', async () => {
    const metrics = create();
    for (let n = 0; n < 1500; n += 1) metrics.toolCall(`c${n}`, { outcome: 'ok' }, 0.1);
    const text = await metrics.text(Array.from({ length: 1500 }, (_, n) => facts(n)));
    expect(sample(text, 'tenon_mcp_calls_total', { connector_id: 'other', outcome: 'ok', code: '' })).toBe(500);
    expect(sample(text, 'tenon_mcp_calls_total', { connector_id: 'c999', outcome: 'ok', code: '' })).toBe(1);
    const shown = [...seriesOf(text).keys()].filter((key) => key.startsWith('tenon_mcp_tools{'));
    expect(shown).toHaveLength(1000);
  });

  it('does not grow with connectors that are gone', async () => {
    const metrics = create();
    for (let n = 0; n < 3000; n += 1) {
      metrics.toolCall(`c${n}`, { outcome: 'ok' }, 0.1);
      metrics.connectAttempt(`c${n}`, { outcome: 'failed', code: 'dns_failed', background: true });
      metrics.forget(`c${n}`);
    }
    metrics.toolCall('last', { outcome: 'ok' }, 0.1);
    expect((await metrics.text([])).match(/connector_id="(c\d+|other)"/g)).toBe(null);
    expect(
      sample(await metrics.text([]), 'tenon_mcp_calls_total', { connector_id: 'last', outcome: 'ok', code: '' }),
    ).toBe(1);
  });

  it('keeps names on their line', async () => {
    const text = await create().text([facts(1, `a"\n# TYPE x counter\u202e\\${'y'.repeat(500)}`)]);
    const line = text.split('\n').find((each) => each.startsWith('tenon_mcp_tools{')) ?? '';
    expect(line).toMatch(/^tenon_mcp_tools\{connector_id="c1",name="a\\"\ufffd# TYPE x counter\ufffd\\\\y+"\} 1$/);
    expect(line.length).toBeLessThan(200);
  });

  it('mixes no two servers of one process', async () => {
    const [one, two] = [create(), create()];
    one.toolCall('c', { outcome: 'ok' }, 1);
    expect(await two.text([])).not.toContain('connector_id="c"');
  });
});
