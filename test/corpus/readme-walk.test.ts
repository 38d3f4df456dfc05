import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Model, startStandIn } from '../../demo/model.ts';
import { startWeatherServer, type WeatherServer } from '../../demo/weather-server.ts';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { createRest } from '../support/rest.ts';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const COMMAND = /^curl -s (?:-X (\w+) )?http:\/\/127\.0\.0\.1:9200(\S*)(?:.* <<'JSON'\n([\s\S]*?)\nJSON)?$/gm;

let app: TestApp;
let weather: WeatherServer;
let model: Model;

beforeAll(async () => {
  [app, weather, model] = await Promise.all([
    startApp(),
    startWeatherServer({ apiKey: 'demo-weather-key-123' }),
    startStandIn(),
  ]);
});
afterAll(async () => {
  await Promise.all([app?.close(), weather?.close(), model?.close()]);
});

it('the five-minute walk of the README works as it is written', async () => {
  const [, walk = ''] = README.split('\n## Five minutes with curl\n');
  const here = (walk.split('\n## ')[0] ?? '')
    .replaceAll('http://127.0.0.1:3101', weather.url)
    .replaceAll('http://127.0.0.1:3103/v1/chat/completions', model.chatUrl);
  const rest = createRest(app.url);
  const answers: JsonObject[] = [];
  for (const [, method = 'GET', path = '', body] of here.matchAll(COMMAND)) {
    answers.push(await rest.ok(method, path, body === undefined ? undefined : JSON.parse(body)));
  }
  const [connector, registered, agent, reply, status] = answers;
  expect(answers).toHaveLength(5);
  expect(connector).toEqual({ connector_id: 'weather' });
  expect(registered).toMatchObject({ model_id: 'chat' });
  expect(agent).toEqual({ agent_id: 'weather_assistant' });
  expect(JSON.stringify(reply)).toContain('Seattle: partly cloudy, 68°F (20°C)');
  expect(status?.mcp_connections).toMatchObject([
    { connector_id: 'weather', status: 'connected', tools: ['get_current_weather'] },
  ]);
});
