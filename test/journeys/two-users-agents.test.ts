import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';
import { type Caller, FORBIDDEN_MODEL, INVISIBLE, startTwoUsers, type TwoUsers } from '../support/two-users.ts';

let office: TwoUsers;
beforeAll(async () => {
  office = await startTwoUsers();
});
afterAll(() => office.close());

describe('an agent of one user, run by another', () => {
  let modelId: string;
  beforeAll(async () => {
    modelId = await office.model('ann', 'public chat', { access_mode: 'public' });
  });
  beforeEach(() => office.llm.reset('Without tools, I cannot know.'));

  it('does without the tools of a connector the caller may not see, and says so', async () => {
    const id = await office.connector('ann', { name: 'secret weather' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    await office.ok('ann', 'GET', `/connectors/${id}/tools`);
    const before = office.weather.requests.length;
    const answer = await office.ask('bob', agentId);
    expect(answer.status).toBe(200);
    const text = `The tools of connector "${id}" (${id}) are missing (forbidden): ${INVISIBLE}.`;
    expect(answer.headers.get('warning')).toContain(text.replaceAll('"', '\\"'));
    expect(answer.headers.get('warning')).not.toContain('secret weather');
    expect(office.llm.requests[0]?.toolNames).toEqual([]);
    expect(JSON.stringify(office.llm.requests[0]?.messages)).toContain(`(forbidden)`);
    expect(JSON.stringify(office.llm.requests[0]?.messages)).not.toContain('secret weather');
    expect(office.weather.requests.length).toBe(before);
    office.llm.reset('fine');
    await office.ask('ann', agentId);
    expect([...(office.llm.requests[0]?.toolNames ?? [])].sort()).toEqual(['forecast', 'warn_everybody']);
  });

  it('shows of that connector only that it is there', async () => {
    const id = await office.connector('ann', { name: 'secret weather' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    for (const query of ['', '?probe=true']) {
      const before = office.weather.requests.length;
      expect((await office.ok('bob', 'GET', `/agents/${agentId}${query}`)).mcp_connections).toEqual([
        {
          connector_id: id,
          status: 'failed',
          tool_count: 0,
          tools: [],
          error: {
            code: 'forbidden',
            message: INVISIBLE,
            remedy: 'Ask its owner or an administrator to share it with you.',
          },
        },
      ]);
      expect(office.weather.requests.length).toBe(before);
    }
    expect((await office.ok('ann', 'GET', `/agents/${agentId}?probe=true`)).mcp_connections).toMatchObject([
      { connector_id: id, name: 'secret weather', status: 'connected', tool_count: 2 },
    ]);
  });

  it('tells nothing of the tools of that connector: neither pins nor an explanation, and nothing to approve', async () => {
    const id = await office.connector('ann', { name: 'secret weather' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    await office.ok('ann', 'GET', `/agents/${agentId}?probe=true`);
    const before = office.weather.requests.length;
    expect(await office.ok('bob', 'GET', `/agents/${agentId}/_pins`)).toEqual({ pins: [] });
    for (const query of ['', '?probe=true', '?tool=forecast']) {
      const answer = await office.ok('bob', 'GET', `/agents/${agentId}/_explain${query}`);
      expect(JSON.stringify(answer)).not.toContain('secret weather');
      expect(answer).toMatchObject({
        tools: query === '?tool=forecast' ? [{ callable: false, reasons: [{ code: 'unknown_tool' }] }] : [],
        problems: [{ code: 'connector_not_visible', connector_id: id, message: `${INVISIBLE}.` }],
      });
    }
    expect((await office.refusal('bob', 'POST', `/agents/${agentId}/_pins/_approve`, { tools: ['forecast'] }))[0]).toBe(
      404,
    );
    expect(await office.ok('bob', 'POST', `/agents/${agentId}/_pins/_approve`, { tools: ['*'] })).toEqual({ pins: [] });
    expect(office.weather.requests.length).toBe(before);
    const { pins } = await office.ok('ann', 'GET', `/agents/${agentId}/_pins`);
    expect(JSON.stringify(pins)).not.toContain('approved_by');
    expect(pins).toHaveLength(2);
  });

  it('is explained to each as it would run for them', async () => {
    const id = await office.connector('ann', { access_mode: 'public' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    await office.ok('ann', 'GET', `/agents/${agentId}?probe=true`);
    const explained = async (caller: Caller): Promise<unknown[]> =>
      ((await office.ok(caller, 'GET', `/agents/${agentId}/_explain`)).tools as JsonObject[]).map(
        ({ tool, callable, reasons }) => [tool, callable, ...(reasons as JsonObject[]).map(({ code }) => code)],
      );
    expect(await explained('ann')).toEqual([
      ['forecast', true],
      ['warn_everybody', true],
    ]);
    expect(await explained('bob')).toEqual([
      ['forecast', true],
      ['warn_everybody', false, 'denied_by_role'],
    ]);
    expect(await explained('eve')).toEqual([
      ['forecast', false, 'no_permission'],
      ['warn_everybody', false, 'no_permission'],
    ]);
  });

  it('pins all tools whoever meets them first', async () => {
    const id = await office.connector('ann', { access_mode: 'public' });
    const tools = [{ type: 'MCPTool', parameters: { connector_id: id } }];
    const parameters = { tool_trust: 'block' };
    const body = { name: 'careful', type: 'conversational', llm: { model_id: modelId }, tools, parameters };
    const agentId = String((await office.ok('ann', 'POST', '/agents/_register', body)).agent_id);
    await office.ask('bob', agentId);
    expect(office.llm.requests.at(-1)?.toolNames).toEqual(['forecast']);
    await office.ask('ann', agentId);
    expect([...(office.llm.requests.at(-1)?.toolNames ?? [])].sort()).toEqual(['forecast', 'warn_everybody']);
  });

  it('fails when that connector is required, and takes no fallback', async () => {
    const id = await office.connector('ann');
    const fallback = await office.connector('ann', { name: 'fallback', access_mode: 'public' });
    const required = await office.agent('ann', modelId, { connector_id: id, required: 'true' });
    expect(
      await office.refusal('bob', 'POST', `/agents/${required}/_execute`, { parameters: { question: 'q' } }),
    ).toEqual([403, `${INVISIBLE}.`]);
    const spare = await office.agent('ann', modelId, { connector_id: id, fallback_connector_id: fallback });
    expect((await office.ask('bob', spare)).headers.get('warning')).toContain('(forbidden)');
    expect(office.llm.requests.at(-1)?.toolNames).toEqual([]);
  });

  it('calls no fallback connector that the caller may not see', async () => {
    const flaky = await startFakeMcpServer({
      tools: [{ name: 'forecast', inputSchema: { type: 'object', properties: {} } }],
      on: { 'tools/call': { status: 503 } },
    });
    const quick = { max_retry_times: 0, read_timeout: 2 };
    const id = await office.connector('ann', { url: flaky.origin, access_mode: 'public', client_config: quick });
    const fallback = await office.connector('ann', { name: 'fallback' });
    const agentId = await office.agent('ann', modelId, { connector_id: id, fallback_connector_id: fallback });
    const before = office.weather.of('tools/call').length;
    office.llm.reset({ tool: 'forecast' }, 'failed');
    expect((await office.ask('bob', agentId)).status).toBe(200);
    expect(flaky.of('tools/call').length).toBe(1);
    expect(office.weather.of('tools/call').length).toBe(before);
    await flaky.stop();
  });

  it('needs the permission to use connectors', async () => {
    const id = await office.connector('ann', { access_mode: 'public' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    const answer = await office.ask('eve', agentId);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('warning')).toContain(
      `The tools of connector \\"weather\\" (${id}) are missing (forbidden): You need the permission connector:use`,
    );
    const query = { bool: { filter: [{ term: { connector_id: id } }, { term: { action: 'access' } }] } };
    const found = await office.send('operator', 'POST', '/audit/_search', { query });
    expect(JSON.stringify(found.body)).toContain('"outcome":"refused"');
    expect(JSON.stringify(found.body)).toContain('"principal":"user:eve"');
    expect(office.llm.requests[0]?.toolNames).toEqual([]);
  });

  it('is not offered a tool that its role is denied, and cannot call it', async () => {
    const id = await office.connector('ann', { access_mode: 'public' });
    const agentId = await office.agent('ann', modelId, { connector_id: id });
    const before = office.weather.of('tools/call').length;
    office.llm.reset({ tool: 'warn_everybody' }, 'I may not.');
    expect((await office.ask('bob', agentId)).status).toBe(200);
    expect(office.llm.requests[0]?.toolNames).toEqual(['forecast']);
    const said = office.llm.requests[1]?.messages.find(({ role }) => role === 'tool')?.content;
    expect(said).toBe('Error: unknown tool warn_everybody; available: forecast');
    expect(await office.refusal('bob', 'POST', `/connectors/${id}/tools/warn_everybody/_execute`, {})).toEqual([
      403,
      `You don't have permission to call the tool warn_everybody of connector ${id}.`,
    ]);
    expect(office.weather.of('tools/call').length).toBe(before);
    expect(await office.ok('bob', 'POST', `/connectors/${id}/tools/forecast/_execute`, {})).toMatchObject({
      isError: false,
    });
    expect(await office.ok('ann', 'POST', `/connectors/${id}/tools/warn_everybody/_execute`, {})).toMatchObject({
      isError: false,
    });
  });

  it('is refused, as prediction is, when the connector of its model was closed to who registered the model', async () => {
    const shared = { ...chatConnector(office.llm.url), access_mode: 'public' };
    const { connector_id: id } = await office.ok('bob', 'POST', '/connectors/_create', shared);
    const registration = { name: 'on the connector of bob', function_name: 'remote', connector_id: id };
    const { model_id: modelId } = await office.ok('ann', 'POST', '/models/_register?deploy=true', registration);
    const agentId = await office.agent('ann', String(modelId), { connector_id: await office.connector('ann') });
    expect((await office.ask('ann', agentId)).status).toBe(200);
    const asked = office.llm.requests.length;
    await office.ok('bob', 'PUT', `/connectors/${id}`, { access_mode: 'private' });
    for (const [path, parameters] of [
      [`/models/${modelId}/_deploy`, undefined],
      [`/models/${modelId}/_predict`, { prompt: 'q' }],
      [`/agents/${agentId}/_execute`, { question: 'q' }],
    ] as const) {
      expect(await office.refusal('ann', 'POST', path, parameters && { parameters })).toEqual([403, INVISIBLE]);
    }
    expect(office.llm.requests).toHaveLength(asked);
  });

  it('when deleted by another leaves the sessions of connectors open that are not for the other to see', async () => {
    const id = await office.connector('ann');
    await office.ok('ann', 'GET', `/connectors/${id}/tools`);
    const hers = await office.agent('ann', await office.model('ann', 'kept session'), { connector_id: id });
    const status = async () => (await office.ok('ann', 'GET', `/connectors/${id}/_status`)).status;
    expect(await status()).toBe('connected');
    await office.ok('bob', 'DELETE', `/agents/${hers}`);
    expect(await status()).toBe('connected');
  });

  it('is refused when its model is not shared with the caller', async () => {
    const id = await office.connector('ann', { access_mode: 'public' });
    const agentId = await office.agent('ann', await office.model('ann', 'private chat'), { connector_id: id });
    const memories = async () =>
      ((await office.ok('bob', 'GET', '/memory?max_results=1000')).memories as unknown[]).length;
    const before = await memories();
    expect(
      await office.refusal('bob', 'POST', `/agents/${agentId}/_execute`, { parameters: { question: 'q' } }),
    ).toEqual([403, FORBIDDEN_MODEL]);
    expect(office.llm.requests).toEqual([]);
    expect(await memories()).toBe(before);
    expect((await office.ask('ann', agentId)).status).toBe(200);
  });
});
