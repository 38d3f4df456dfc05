import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { Reply } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';
import { found, octetsOf, reasonOf, startRig } from './rig.ts';

const rig = startRig();

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
/** Ways in which a secret could be written; base64 without the characters that depend on its neighbours. */
function spellings(secret: string): string[] {
  const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
  return [
    secret,
    octetsOf(secret),
    inJson(secret),
    inJson(inJson(secret)),
    encodeURIComponent(secret),
    base64(secret).replace(/.{0,3}=*$/, ''),
    base64(`svc:${secret}`)
      .slice(6)
      .replace(/.{0,3}=*$/, ''),
  ];
}

describe.each([
  ['plain', 'CANARY-A1'],
  ['with quotes, backslash and spaces', 'CANARY "q\\u0041" \\ \'x\''],
  ['with letters beyond ASCII', 'CANARY-ключ-säk-🦉'],
  ['with characters of URLs and patterns', 'CANARY+/=&?%41$&$1'],
  ['of 6 KB', `CANARY-${'0123456789abcdef'.repeat(384)}`],
])('a secret %s', (_name, secret) => {
  it('is in no log line, answer, prompt or row, whatever its server makes of it', async () => {
    const shown = `you sent ${secret}, that is ${encodeURIComponent(secret)} or ${Buffer.from(secret).toString('base64')}`;
    const json = { 'Content-Type': 'application/json' };
    const behaviours: Record<string, Record<string, Reply>> = {
      ok: {},
      'a tool that shows its headers': {
        'tools/call': { result: { content: [{ type: 'text', text: shown }], structuredContent: { shown } } },
      },
      'tools described with it': {
        'tools/list': { result: { tools: [{ name: 'echo', description: shown, inputSchema: { type: 'object' } }] } },
      },
      'error of the call': { 'tools/call': { error: { code: -32000, message: shown, data: { shown } } } },
      'error of the list': { 'tools/list': { error: { code: -32603, message: shown } } },
      '401': {
        '*': {
          status: 401,
          headers: { ...json, 'WWW-Authenticate': `Bearer error="${encodeURIComponent(secret)}"` },
          body: { error: shown },
        },
      },
      '403 of the call': { 'tools/call': { status: 403, headers: json, body: { message: shown } } },
      '500': { '*': { status: 500, headers: json, body: { error: { code: -1, message: shown } } } },
      '500 as text': { '*': { status: 500, body: shown } },
      'another version': { initialize: { status: 400, body: `Unsupported protocol version ${shown}` } },
      'another version in the result': { initialize: { patch: { protocolVersion: secret } } },
      'a page': { '*': { status: 200, headers: { 'Content-Type': 'text/html' }, body: shown } },
      'a strange type': {
        '*': { status: 200, headers: { 'Content-Type': `x/${encodeURIComponent(secret)}` }, body: '{}' },
      },
      'a redirect': { '*': { status: 302, headers: { Location: `/login?next=${encodeURIComponent(secret)}` } } },
      'a redirect elsewhere': {
        '*': { status: 307, headers: { Location: `http://elsewhere.example/${encodeURIComponent(secret)}` } },
      },
      'a broken connection': { '*': { reset: true } },
    };
    rig.llm.reset(({ messages, toolNames }) =>
      messages.at(-1)?.role !== 'tool' && toolNames.length > 0 ? { tool: 'echo', args: '{"text":"x"}' } : 'done',
    );
    const short = secret.slice(0, 12);
    for (const [name, on] of Object.entries(behaviours)) {
      const server = await rig.serve({ on });
      const id = await rig.connector(server.origin, {
        name,
        credential: { k: secret, user: 'svc' },
        headers: { 'X-Strange-Name': 'v ${credential.k}', Authorization: 'Basic ${credential.user}:${credential.k}' },
        client_config: { max_retry_times: 0 },
      });
      const agent = await rig.agent(id);
      expect((await rig.ask(agent, 'go')).status).toBe(200);
      await rig.call(id, 'echo', { text: 'x' });
      await rig.send('GET', `/connectors/${id}/tools`);
      await rig.status(id, '?probe=true');
      await rig.connections(agent);
      for (const { headers } of server.requests) expect(headers['x-strange-name']).toBe(octetsOf(`v ${secret}`));
      if (name === 'ok') {
        await server.stop();
        await rig.call(id, 'echo', { text: 'x' });
        await rig.status(id, '?probe=true');
      }
    }
    await rig.ok('GET', '/connectors/_status');
    const prompts = rig.llm.requests.map(({ text }) => text).join('\n');
    expect(rig.llm.requests.length).toBeGreaterThan(Object.keys(behaviours).length);
    for (const text of [rig.said(), prompts, await rig.databaseOctets()]) {
      expect(found(text, ...spellings(secret), short).map((excerpt) => excerpt.slice(0, 300))).toEqual([]);
    }
  });
});

it('keeps the key of a model out of what is said when its provider repeats it', async () => {
  const key = 'sk-CANARY-model-1';
  const connector = { ...chatConnector(rig.llm.url), credential: { openai_key: key } };
  const model = { name: 'own', function_name: 'remote', connector };
  const { model_id: modelId } = await rig.ok('POST', '/models/_register?deploy=true', model);
  const { agent_id: agent } = await rig.ok('POST', '/agents/_register', {
    name: 'own',
    type: 'conversational',
    llm: { model_id: String(modelId) },
  });
  rig.llm.reset({ status: 401, body: { error: { message: `Incorrect API key provided: ${key}.` } } });
  const predicted = await rig.send('POST', `/models/${modelId}/_predict`, { parameters: { prompt: 'x' } });
  const asked = await rig.ask(String(agent), 'go');
  for (const text of [reasonOf(predicted), JSON.stringify(asked.body)]) {
    expect(text).toContain('Incorrect API key provided: [redacted].');
  }
  const memories = (await rig.ok('GET', '/memory')).memories as JsonObject[];
  await rig.ok('GET', `/memory/${memories[0]?.memory_id}/messages`);
  expect(rig.llm.requests[0]?.headers.authorization).toBe(`Bearer ${key}`);
  expect(found(rig.said(), key)).toEqual([]);
  expect(found(await rig.databaseOctets(), key)).toEqual([]);
});

it('keeps a credential that was replaced out of the logs too', async () => {
  const server = await rig.serve();
  const id = await rig.connector(server.origin, {
    credential: { k: 'CANARY-old-one' },
    headers: { 'X-Key': '${credential.k}' },
  });
  await rig.call(id, 'echo', { text: 'x' });
  await rig.ok('PUT', `/connectors/${id}`, { credential: { k: 'CANARY-new-one' } });
  server.on('*', {
    status: 403,
    headers: { 'Content-Type': 'application/json' },
    body: { error: 'CANARY-old-one is revoked, so is CANARY-new-one' },
  });
  expect(reasonOf(await rig.call(id, 'echo', { text: 'x' }))).toContain('[redacted] is revoked, so is [redacted]');
  await rig.restart();
  expect(reasonOf(await rig.call(id, 'echo', { text: 'x' }))).toContain('so is [redacted]');
  await rig.ok('DELETE', `/connectors/${id}`);
  expect(found(rig.said(), 'CANARY-new-one')).toEqual([]);
  expect(found(await rig.databaseOctets(), 'CANARY-new-one')).toEqual([]);
});
