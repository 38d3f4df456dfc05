import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { chatConnector } from '../support/rest.ts';
import {
  type Caller,
  FORBIDDEN_MODEL,
  INVISIBLE,
  results,
  startTwoUsers,
  type TwoUsers,
} from '../support/two-users.ts';

let office: TwoUsers;
beforeAll(async () => {
  office = await startTwoUsers();
});
afterAll(() => office.close());

describe('records of one user', () => {
  it('a private connector is closed on every route', async () => {
    const id = await office.connector('ann');
    await office.ok('ann', 'GET', `/connectors/${id}/tools`);
    expect(await office.ok('ann', 'GET', `/connectors/${id}`)).toMatchObject({
      owner: { name: 'ann', backend_roles: ['it'], roles: ['ml_full_access'], custom_attribute_names: [] },
      access: 'private',
    });
    expect(await office.refusal('bob', 'GET', `/connectors/${id}`)).toEqual([403, INVISIBLE]);
    expect(await office.refusal('bob', 'GET', `/connectors/${id}/_status`)).toEqual([403, INVISIBLE]);
    expect(await office.refusal('bob', 'GET', `/connectors/${id}/tools`)).toEqual([403, INVISIBLE]);
    expect(await office.refusal('bob', 'POST', `/connectors/${id}/tools/forecast/_execute`, {})).toEqual([
      403,
      INVISIBLE,
    ]);
    expect(await office.refusal('bob', 'PUT', `/connectors/${id}`, { name: 'x' })).toEqual([
      403,
      `You don't have permission to update the connector, connector id: ${id}`,
    ]);
    expect(await office.refusal('bob', 'DELETE', `/connectors/${id}`)).toEqual([
      403,
      `You don't have permission to delete the connector, connector id: ${id}`,
    ]);
    const listed = async (caller: Caller): Promise<unknown[]> =>
      ((await office.ok(caller, 'GET', '/connectors/_status')).connectors as JsonObject[]).map(
        (each) => each.connector_id,
      );
    expect(await listed('ann')).toContain(id);
    expect(await listed('operator')).toContain(id);
    expect(await listed('bob')).not.toContain(id);
    expect(await office.refusal('ann', 'DELETE', '/connectors/unknown')).toEqual([
      404,
      'Failed to find connector with the provided connector id: unknown',
    ]);
    expect(await office.ok('ann', 'DELETE', `/connectors/${id}`)).toMatchObject({ result: 'deleted' });
  });

  it('are those of its API keys, and the other way round', async () => {
    const { api_key: key } = await office.ok('ann', 'POST', '/api_keys', { name: 'script' });
    const headers = { authorization: `ApiKey ${key}` };
    const id = await office.connector('ann');
    expect((await office.app.request('GET', `/_plugins/_ml/connectors/${id}`, undefined, headers)).status).toBe(200);
    const { body } = await office.app.request('POST', '/_plugins/_ml/memory', { name: 'by key' }, headers);
    expect(await office.ok('ann', 'GET', `/memory/${body.memory_id}`)).toMatchObject({ user: 'ann', name: 'by key' });
    expect((await office.refusal('bob', 'GET', `/memory/${body.memory_id}`))[0]).toBe(401);
    await office.ok('ann', 'DELETE', `/memory/${body.memory_id}`);
  });

  it('a connector is shared with the roles it names', async () => {
    const id = await office.connector('ann', { access_mode: 'restricted', backend_roles: ['it'] });
    expect(await office.ok('bob', 'GET', `/connectors/${id}`)).toMatchObject({
      access: 'restricted',
      backend_roles: ['it'],
    });
    expect(await office.refusal('eve', 'GET', `/connectors/${id}`)).toEqual([403, INVISIBLE]);
    const body = {
      name: 'x',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: office.weather.origin,
      backend_roles: ['hr'],
    };
    expect(await office.refusal('ann', 'POST', '/connectors/_create', body)).toEqual([
      400,
      "You don't have the backend roles specified.",
    ]);
  });

  it('a private model and its group are closed, and the task of its registration is not there', async () => {
    const { model_group_id: group } = await office.ok('ann', 'POST', '/model_groups/_register', { name: 'of ann' });
    const registration = {
      name: 'm',
      function_name: 'remote',
      connector: chatConnector(office.llm.url),
      model_group_id: group,
    };
    const registered = await office.ok('ann', 'POST', '/models/_register', registration);
    const { model_id: id, task_id: task } = registered;
    expect(await office.ok('ann', 'GET', `/model_groups/${group}`)).toMatchObject({
      access: 'private',
      owner: { name: 'ann' },
    });
    expect(await office.refusal('bob', 'GET', `/model_groups/${group}`)).toEqual([
      403,
      "User doesn't have privilege to perform this operation on this model group",
    ]);
    expect(await office.refusal('bob', 'PUT', `/model_groups/${group}`, { access_mode: 'public' })).toEqual([
      403,
      "You don't have permissions to perform this operation on this model group.",
    ]);
    for (const [method, path, body] of [
      ['GET', `/models/${id}`],
      ['PUT', `/models/${id}`, { name: 'x' }],
      ['DELETE', `/models/${id}`],
      ['POST', `/models/${id}/_deploy`],
      ['POST', `/models/${id}/_undeploy`],
      ['POST', `/models/${id}/_predict`, { parameters: { prompt: 'x' } }],
      ['POST', `/_plugins/_ml/_predict/remote/${id}`, { parameters: { prompt: 'x' } }],
    ] as const) {
      expect([method, path, ...(await office.refusal('bob', method, path, body))]).toEqual([
        method,
        path,
        403,
        FORBIDDEN_MODEL,
      ]);
    }
    expect(await office.ok('ann', 'GET', `/tasks/${task}`)).toMatchObject({ state: 'COMPLETED' });
    expect(await office.ok('operator', 'GET', `/tasks/${task}`)).toMatchObject({ state: 'COMPLETED' });
    expect(await office.refusal('bob', 'GET', `/tasks/${task}`)).toEqual([404, 'Failed to find task']);
    expect(await office.refusal('bob', 'DELETE', `/tasks/${task}`)).toEqual([404, 'Failed to find task']);
  });
});

describe('conversations', () => {
  let agentId: string;
  beforeAll(async () => {
    const shared = await office.connector('ann', { access_mode: 'public' });
    agentId = await office.agent('ann', await office.model('ann', 'shared chat', { access_mode: 'public' }), {
      connector_id: shared,
    });
  });
  beforeEach(() => office.llm.reset({ tool: 'forecast' }, 'It will rain.'));

  it('belong to who asked: memory, messages, traces and lists', async () => {
    const answer = await office.ask('ann', agentId);
    expect(answer.status).toBe(200);
    const { memory_id: memory, parent_interaction_id: message } = results(answer);
    const closed = [401, `User [bob] does not have access to memory ${memory}`];
    for (const [method, path, body] of [
      ['GET', `/memory/${memory}`],
      ['PUT', `/memory/${memory}`, { name: 'x' }],
      ['DELETE', `/memory/${memory}`],
      ['GET', `/memory/${memory}/messages`],
      ['POST', `/memory/${memory}/messages`, { input: 'x' }],
      ['GET', `/memory/message/${message}`],
      ['PUT', `/memory/message/${message}`, { response: 'x' }],
      ['GET', `/memory/message/${message}/traces`],
    ] as const) {
      expect([method, path, ...(await office.refusal('bob', method, path, body))]).toEqual([method, path, ...closed]);
    }
    expect(((await office.ok('ann', 'GET', `/memory/message/${message}/traces`)).traces as unknown[]).length).toBe(3);
    const list = async (caller: Caller): Promise<unknown[]> =>
      ((await office.ok(caller, 'GET', '/memory?max_results=1000')).memories as JsonObject[]).map(
        (each) => each.memory_id,
      );
    expect(await list('ann')).toEqual([memory]);
    expect(await list('bob')).toEqual([]);
    expect(await list('operator')).toContain(memory);
    expect(await office.ok('ann', 'GET', `/memory/${memory}`)).toMatchObject({ user: 'ann', name: 'Rain?' });
  });

  it('cannot be continued, regenerated or read by another through an agent', async () => {
    const { memory_id, parent_interaction_id } = results(await office.ask('ann', agentId));
    const seen = office.llm.requests.length;
    for (const parameters of [
      { memory_id },
      { memory_id, regenerate_interaction_id: parent_interaction_id },
      { memory_id, parent_interaction_id },
    ]) {
      const { status, body } = await office.ask('bob', agentId, parameters as JsonObject);
      expect([status, body]).toEqual([
        401,
        {
          status: 401,
          error: {
            type: 'OpenSearchStatusException',
            reason: 'System Error',
            details: `User [bob] does not have access to memory ${memory_id}`,
          },
        },
      ]);
    }
    const own = (await office.ok('bob', 'POST', '/memory', { name: 'own' })).memory_id;
    expect(
      (await office.ask('bob', agentId, { memory_id: own ?? '', parent_interaction_id: parent_interaction_id ?? '' }))
        .status,
    ).toBe(404);
    expect(office.llm.requests.length).toBe(seen);
  });
});

describe('what a run wants to know', () => {
  it('is shown to and answered by who asked, and an administrator; to others there is no such task', async () => {
    const shared = await office.connector('ann', { access_mode: 'public' });
    const open = await office.model('ann', 'chat that asks', { access_mode: 'public' });
    const body = {
      name: 'careful',
      type: 'conversational',
      llm: { model_id: open },
      tools: [{ type: 'MCPTool', parameters: { connector_id: shared } }],
      parameters: { tool_permissions: [{ tool: '.*', permission: 'ask' }] },
    };
    const id = String((await office.ok('ann', 'POST', '/agents/_register', body)).agent_id);
    for (const [answerer, by] of [
      ['ann', 'user:ann'],
      ['operator', 'api_key'],
    ] as const) {
      office.llm.reset({ tool: 'forecast' }, 'It will rain.');
      const question = { parameters: { question: 'Rain?' } };
      const { task_id: task } = await office.ok('ann', 'POST', `/agents/${id}/_execute?async=true`, question);
      const requests = async (caller: Caller): Promise<JsonObject[]> =>
        (await office.ok(caller, 'GET', `/tasks/${task}/_requests`)).requests as JsonObject[];
      await expect.poll(async () => (await requests('operator')).length).toBe(1);
      const [request] = await requests('ann');
      const path = `/tasks/${task}/_requests/${request?.request_id}`;
      const hidden = [404, 'Failed to find task'];
      expect(await office.refusal('bob', 'GET', `/tasks/${task}`)).toEqual(hidden);
      expect(await office.refusal('bob', 'GET', `/tasks/${task}/_requests`)).toEqual(hidden);
      expect(await office.refusal('bob', 'POST', path, { action: 'approve' })).toEqual(hidden);
      expect((await office.refusal('eve', 'POST', path, { action: 'approve' }))[0]).toBe(403);
      expect(await office.ok(answerer, 'POST', path, { action: 'approve' })).toMatchObject({
        answer: { answered_by: by },
      });
      await expect.poll(async () => (await office.ok('ann', 'GET', `/tasks/${task}`)).state).toBe('COMPLETED');
    }
  });
});
