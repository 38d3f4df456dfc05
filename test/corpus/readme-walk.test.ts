import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Model, startStandIn } from '../../demo/model.ts';
import { startWeatherServer, type WeatherServer } from '../../demo/weather-server.ts';
import { readConfig } from '../../src/config.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const SCRIPTS = [...README.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, script = '']) => script).join('\n');
const COMMAND = new RegExp(
  [
    /^(?<variable>(?:\w+=\$\())?curl -s /,
    /(?<key>-H "Authorization: Bearer \$TENON_API_KEY" )?/,
    /(?:-X (?<method>\w+) )?"?(?:\$B|http:\/\/127\.0\.0\.1:9200)(?<path>\/[^\s"]*)"?/,
    /(?: -H 'Content-Type: application\/json' (?:-d '(?<inline>[^'\n]*)'|-d @- <<'?JSON'?\n(?<body>[\s\S]*?)\nJSON))?/,
    /(?: \| .*\))?$/,
  ]
    .map(({ source }) => source)
    .join(''),
  'gm',
);
const KEY = 'the-key-of-the-readme';

let open: TestApp;
let keyed: TestApp;
let weather: WeatherServer;
let model: Model;

beforeAll(async () => {
  [open, keyed, weather, model] = await Promise.all([
    startApp(),
    startApp({ config: { apiKey: KEY } }),
    startWeatherServer({ apiKey: 'demo-weather-key-123' }),
    startStandIn(),
  ]);
});
afterAll(async () => {
  await Promise.all([open?.close(), keyed?.close(), weather?.close(), model?.close()]);
});

/** Sends the commands of the README in their order; a variable takes what the command's `grep` finds. */
async function sendAll(): Promise<{ line: string; answer: TestAnswer }[]> {
  const here = SCRIPTS.replaceAll('http://127.0.0.1:3101', weather.url).replaceAll(
    'http://127.0.0.1:3103/v1/chat/completions',
    model.chatUrl,
  );
  const answers: { line: string; answer: TestAnswer }[] = [];
  let memoryId = '';
  for (const { groups = {} } of here.matchAll(COMMAND)) {
    const { variable, key, method = 'GET', path = '', inline, body = inline } = groups;
    const headers = key ? { authorization: `Bearer ${KEY}` } : {};
    const answer = await (key ? keyed : open).request(
      method,
      path,
      body === undefined ? undefined : JSON.parse(body.replace('$M', memoryId)),
      headers,
    );
    if (variable) memoryId = /"memory_id":"([^"]*)/.exec(answer.text)?.[1] ?? '';
    answers.push({ line: `${method} ${path}`, answer });
  }
  return answers;
}

describe('the README', () => {
  it('has commands that work as they are written, one after the other', async () => {
    const answers = await sendAll();
    expect(answers).toHaveLength(SCRIPTS.match(/\bcurl -s /g)?.length ?? 0);
    for (const { line, answer } of answers) expect(answer.status, `${line}: ${answer.text}`).toBe(200);

    const [connector, registered, agent, reply, memories, next, status] = answers.map(({ answer }) => answer.body);
    expect(connector).toEqual({ connector_id: 'weather' });
    expect(registered).toMatchObject({ model_id: 'chat' });
    expect(agent).toEqual({ agent_id: 'weather_assistant' });
    expect(JSON.stringify(reply)).toContain('Seattle: partly cloudy, 68°F (20°C)');
    expect(memories?.memories).toHaveLength(1);
    expect(JSON.stringify(next)).toContain('Reykjavik: rain, 50°F (10°C)');
    expect(JSON.stringify(next)).toContain((memories as { memories: [{ memory_id: string }] }).memories[0].memory_id);
    expect(status?.mcp_connections).toMatchObject([
      { connector_id: 'weather', status: 'connected', tools: ['get_current_weather'] },
    ]);
  });

  it('leaves every setting as it was', async () => {
    expect((await open.request('GET', '/_cluster/settings')).body).toEqual({ persistent: {}, transient: {} });
  });

  it('is right about loopback: free in open mode, named in a list with a key or beside a trusted list', async () => {
    const [, value = ''] = /TENON_TRUSTED_PRIVATE_ENDPOINTS='([^']+)'/.exec(SCRIPTS) ?? [];
    const { trustedPrivateEndpoints } = readConfig({ TENON_TRUSTED_PRIVATE_ENDPOINTS: value });
    const trustedEndpoints = ['https://mcp[.]example[.]com/.*'];
    expect(await createsOnLoopback({})).toBe(200);
    expect(await createsOnLoopback({ trustedEndpoints })).toBe(400);
    expect(await createsOnLoopback({ trustedEndpoints, trustedPrivateEndpoints })).toBe(200);
    expect(await createsOnLoopback({ apiKey: KEY })).toBe(400);
    expect(await createsOnLoopback({ apiKey: KEY, trustedPrivateEndpoints })).toBe(200);
    expect(await createsOnLoopback({ apiKey: KEY, trustedEndpoints: [value] })).toBe(200);
  });

  it('names the routes that answer without a key', async () => {
    const statuses = await Promise.all(
      ['/healthz', '/readyz', '/', '/openapi.yaml'].map(async (path) => (await keyed.request('GET', path)).status),
    );
    expect(statuses).toEqual([200, 200, 401, 401]);
  });
});

async function createsOnLoopback(config: Partial<TestApp['config']>): Promise<number> {
  const app = await startApp({ config });
  try {
    const body = { name: 'weather', version: 1, protocol: 'mcp_streamable_http', url: 'http://127.0.0.1:3101' };
    const headers = { authorization: `Bearer ${KEY}` };
    return (await app.request('POST', '/_plugins/_ml/connectors/_create', body, headers)).status;
  } finally {
    await app.close();
  }
}
