import { afterEach, beforeEach, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/json.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';
import { openRig, type Rig, toolMessages } from './rig.ts';

const FORM: JsonObject = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const ASKED = { message: 'Where to?', requestedSchema: FORM };
const ASK = { client_config: { elicitation: 'ask', max_retry_times: 0, connection_timeout: 2, read_timeout: 2 } };
const BOOK = [{ name: 'book', inputSchema: { type: 'object' } }];
const ANSWER = { action: 'accept', content: { city: 'Oslo' } };

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(() => rig.dispose());

async function begin(agentId: string): Promise<string> {
  rig.llm.reset({ tool: 'book' }, 'done');
  const body = await rig.ok('POST', `/agents/${agentId}/_execute?async=true`, { parameters: { question: 'q' } });
  return String(body.task_id);
}

async function requests(taskId: string): Promise<JsonObject[]> {
  return (await rig.ok('GET', `/tasks/${taskId}/_requests`)).requests as JsonObject[];
}

/** The only request of a run, once it is there and as told. */
async function only(taskId: string, state: string): Promise<JsonObject> {
  const shown = async () => (await requests(taskId)).map((request) => request.state);
  await expect.poll(shown, { timeout: 10_000 }).toEqual([state]);
  return (await requests(taskId))[0] ?? {};
}

async function completed(taskId: string): Promise<void> {
  const state = async () => (await rig.ok('GET', `/tasks/${taskId}`)).state;
  await expect.poll(state, { timeout: 10_000 }).toBe('COMPLETED');
}

async function refusedAnswer(taskId: string, request: JsonObject, body: JsonObject): Promise<unknown> {
  const answer = await rig.send('POST', `/tasks/${taskId}/_requests/${String(request.request_id)}`, body);
  return [answer.status, (answer.body.error as JsonObject | undefined)?.reason];
}

/** A server of the stateless era whose tool asks first. */
async function statelessServer(): Promise<FakeMcpServer> {
  const server = await rig.server({ modern: true, tools: BOOK });
  server.on('tools/call', ({ message }) =>
    isJsonObject(message?.params) && message.params.inputResponses !== undefined
      ? 'normal'
      : {
          result: {
            resultType: 'input_required',
            requestState: 'of the first',
            inputRequests: { where: { method: 'elicitation/create', params: ASKED } },
          },
        },
  );
  return server;
}

it('a question that its server takes back is closed, and an answer is told why', async () => {
  const server = await rig.server({ tools: BOOK });
  let takeBack = (): void => undefined;
  let end = (): void => undefined;
  const back = new Promise<void>((resolve) => {
    takeBack = resolve;
  });
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  server.on('tools/call', ({ message }) => ({
    sse: [
      JSON.stringify({ jsonrpc: '2.0', id: 'q-1', method: 'elicitation/create', params: ASKED }),
      async () => {
        await back;
        return JSON.stringify({
          jsonrpc: '2.0',
          method: 'notifications/cancelled',
          params: { requestId: 'q-1' },
        });
      },
      async () => {
        await over;
        return JSON.stringify({ jsonrpc: '2.0', id: message?.id, result: { content: [{ type: 'text', text: 'ok' }] } });
      },
    ],
  }));
  const taskId = await begin(await rig.agent([await rig.connector('w', server.origin, ASK)]));
  await only(taskId, 'open');
  takeBack();
  const request = await only(taskId, 'expired');
  expect(request.reason).toBe('Its server took it back');
  expect(await refusedAnswer(taskId, request, ANSWER)).toEqual([
    409,
    `Request ${String(request.request_id)} is closed. Its server took it back. It counts as cancel`,
  ]);
  end();
  await completed(taskId);
  expect(toolMessages(rig.llm, 1)).toEqual(['ok']);
});

it('an approval is closed when the run that goes on is not allowed to make the call any more', async () => {
  const server = await rig.server({ tools: BOOK });
  const rules = (permission: string) => ({
    tool_permissions: JSON.stringify([{ tool: '.*', permission }]),
  });
  const agentId = await rig.agent([await rig.connector('w', server.origin)], { parameters: rules('ask') });
  const taskId = await begin(agentId);
  await only(taskId, 'open');
  await rig.ok('PUT', `/agents/${agentId}`, { parameters: rules('deny') });
  await rig.restart();
  await completed(taskId);
  const request = await only(taskId, 'expired');
  expect(request.reason).toMatch(/^The call it belongs to is not made/);
  expect(await refusedAnswer(taskId, request, { action: 'approve' })).toEqual([
    409,
    expect.stringMatching(/The call it belongs to is not made.*It counts as refuse/),
  ]);
  expect(server.of('tools/call')).toEqual([]);
});

it.each(['at once', 'after a restart'])('a question is closed when its connector leads elsewhere: %s', async (when) => {
  const [first, second] = [await statelessServer(), await statelessServer()];
  const connectorId = await rig.connector('w', first.origin, ASK);
  const taskId = await begin(await rig.agent([connectorId]));
  await only(taskId, 'open');
  if (when === 'at once') await rig.ok('PUT', `/connectors/${connectorId}`, { url: second.origin });
  else {
    // As another process would change it, so that this one does not notice.
    const { kysely } = rig.services().database;
    const { body } = await kysely
      .selectFrom('documents')
      .select('body')
      .where('id', '=', connectorId)
      .executeTakeFirstOrThrow();
    const moved = String(body).replace(first.origin, second.origin);
    await kysely.updateTable('documents').set({ body: moved }).where('id', '=', connectorId).execute();
    await rig.restart();
  }
  await completed(taskId);
  const request = await only(taskId, 'expired');
  expect(await refusedAnswer(taskId, request, ANSWER)).toEqual([
    409,
    expect.stringContaining('The connector was changed while the call waited. It counts as cancel'),
  ]);
  expect(toolMessages(rig.llm, 1)).toEqual([expect.stringMatching(/^Error: The connector was changed while the call/)]);
  expect(JSON.stringify(second.requests)).not.toContain('of the first');
  expect(second.of('tools/call')).toEqual([]);
});

it('a question is closed when only the fallback connector is left after a restart, which never hears of it', async () => {
  const [first, second] = [await statelessServer(), await statelessServer()];
  const connectorId = await rig.connector('w', first.origin, ASK);
  const fallback = await rig.connector('v', second.origin, ASK);
  const agentId = await rig.agent([{ connector_id: connectorId, fallback_connector_id: fallback }]);
  const taskId = await begin(agentId);
  await only(taskId, 'open');
  await first.stop();
  await rig.restart();
  await completed(taskId);
  const request = await only(taskId, 'expired');
  expect((await refusedAnswer(taskId, request, ANSWER)) as unknown[]).toContain(409);
  expect(JSON.stringify(second.requests)).not.toContain('of the first');
  expect(second.of('tools/call')).toEqual([]);
});
