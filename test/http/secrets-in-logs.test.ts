import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type FakeMcpServer, type ScriptedReply, startFakeMcpServer } from '../support/fake-mcp-server.ts';

const CANARY = 'CANARY/A1+ü "quoted"';
const ML = '/_plugins/_ml';

let app: TestApp;
let mcp: FakeMcpServer;
const answers: string[] = [];
beforeAll(async () => {
  [app, mcp] = await Promise.all([startApp(), startFakeMcpServer()]);
});
afterAll(async () => {
  await app.close();
  await mcp.stop();
});

async function say(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await app.request(method, `${ML}${path}`, body);
  answers.push(answer.text);
  return answer.body;
}

async function connect(name: string): Promise<string> {
  const created = await say('POST', '/connectors/_create', {
    name,
    version: 1,
    protocol: 'mcp_streamable_http',
    url: mcp.origin,
    credential: { k: CANARY },
    headers: { 'X-Strange-Name': 'v ${credential.k}', Authorization: 'Basic user:${credential.k}' },
    client_config: { max_retry_times: 0 },
  });
  return String(created['connector_id']);
}

it('keeps a credential out of every log line and answer, whatever its server does', async () => {
  const refusals: Record<string, ScriptedReply> = {
    ok: {},
    unauthorized: { status: 401, headers: { 'WWW-Authenticate': 'Bearer' }, body: `no ${CANARY}` },
    echoing: { status: 500, body: { error: `you sent ${CANARY} and ${encodeURIComponent(CANARY)}` } },
    redirecting: { status: 302, headers: { Location: `http://elsewhere.example/?k=${encodeURIComponent(CANARY)}` } },
    broken: { reset: true },
  };
  for (const [name, reply] of Object.entries(refusals)) {
    mcp.on('*', name === 'ok' ? 'normal' : reply);
    const id = await connect(name);
    await say('GET', `/connectors/${id}/tools`);
    await say('POST', `/connectors/${id}/tools/echo/_execute`, { arguments: { text: 'x' } });
    await say('GET', `/connectors/${id}/_status`);
    await say('GET', `/connectors/${id}`);
  }
  const lost = await connect('lost');
  await mcp.stop();
  await say('GET', `/connectors/${lost}/tools`);
  await say('POST', '/connectors/_create', { name: CANARY, credential: { k: CANARY }, protocol: 'nonsense' });

  const seen = mcp.requests.map(({ headers }) => String(headers['x-strange-name']));
  expect(seen).toContain(`v ${Buffer.from(CANARY).toString('latin1')}`);
  expect(app.lines.filter((line) => line.includes('MCP')).length).toBeGreaterThan(5);

  const everything = `${app.lines.join('')}${answers.join('\n')}`;
  const spellings = [
    CANARY,
    JSON.stringify(CANARY).slice(1, -1),
    'CANARY',
    encodeURIComponent(CANARY),
    Buffer.from(CANARY).toString('base64'),
    Buffer.from(`user:${CANARY}`).toString('base64'),
    Buffer.from(CANARY).toString('latin1'),
  ];
  for (const spelling of spellings) expect(everything).not.toContain(spelling);
});
