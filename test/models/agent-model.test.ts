import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compileBody, renderBody } from '../../src/connectors/template.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type JsonObject, parseJson } from '../../src/json.ts';
import { openAiChat } from '../../src/llm/codecs/openai-chat.ts';
import type { ModelRequest } from '../../src/llm/types.ts';
import { registerFromAgent } from '../../src/models/agent-model.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';

let platform: ModelPlatform;
beforeAll(async () => {
  platform = await startModelPlatform();
});
afterAll(() => platform.close());

const MODEL = {
  model_id: 'gpt-5',
  model_provider: 'openai/v1/chat/completions',
  credential: { openai_api_key: 'sk-agent-key' },
};

function register(model: JsonObject) {
  return registerFromAgent(platform.models, { principal: OPEN_PRINCIPAL, agentName: 'helper', model });
}

describe('the model block of an agent', () => {
  it('becomes a model with an inline connector', async () => {
    const made = await register({
      ...MODEL,
      model_parameters: { max_iteration: 5, system_prompt: 'Be brief.', temperature: 0.5, reasoning_effort: 'low' },
    });
    expect(made).toEqual({
      modelId: expect.any(String),
      llmInterface: 'openai/v1/chat/completions',
      parameters: { max_iteration: '5', system_prompt: 'Be brief.' },
    });
    const model = await platform.rest.ok('GET', `/models/${made.modelId}`);
    expect(model).toMatchObject({ name: 'helper gpt-5', algorithm: 'REMOTE', description: 'Model of agent helper' });
    expect(model.connector).toMatchObject({
      protocol: 'http',
      parameters: { model: 'gpt-5', max_tokens: '4096', temperature: '0.5', reasoning_effort: 'low' },
      client_config: { max_retry_times: 3 },
      actions: [
        {
          action_type: 'PREDICT',
          method: 'POST',
          url: 'https://api.openai.com/v1/chat/completions',
          headers: { Authorization: 'Bearer ${credential.openai_api_key}', 'Content-Type': 'application/json' },
        },
      ],
    });
    expect(await platform.documents.sealedCredential('model', made.modelId)).toBeDefined();
    expect(JSON.stringify(await platform.documents.get('model', made.modelId))).not.toContain('sk-agent-key');
  });

  it('has a request body with the system prompt, the conversation and only the members it needs', async () => {
    const request: ModelRequest = {
      system: 'Be "brief".',
      history: [{ role: 'user', text: 'before' }],
      question: 'now?',
      interactions: [{ role: 'assistant', text: 'one moment', toolCalls: [] }],
      tools: [{ name: 'get', description: 'Gets', inputSchema: { type: 'object' } }],
      parameters: {},
    };
    const body = async (parameters: JsonObject) => {
      const { modelId } = await register({ ...MODEL, model_parameters: parameters });
      const { connector } = await platform.rest.ok('GET', `/models/${modelId}`);
      const { actions, parameters: own } = connector as JsonObject;
      const [action] = actions as JsonObject[];
      const encoded = openAiChat.encode(request);
      const values = { ...(own as Record<string, string>), ...encoded.parameters };
      const template = compileBody(String(action?.request_body));
      return parseJson(renderBody(template, { parameters: values, fragments: encoded.fragments }));
    };
    const common = {
      model: 'gpt-5',
      max_completion_tokens: 4096,
      temperature: 1,
      messages: [
        { role: 'system', content: 'Be "brief".' },
        { role: 'user', content: 'before' },
        { role: 'user', content: 'now?' },
        { role: 'assistant', content: 'one moment' },
      ],
      tools: [{ type: 'function', function: { name: 'get', description: 'Gets', parameters: { type: 'object' } } }],
    };
    expect(await body({})).toEqual(common);
    expect(await body({ top_p: 0.1, reasoning_effort: 'high', max_tokens: 9 })).toEqual({
      ...common,
      max_completion_tokens: 9,
      top_p: 0.1,
      reasoning_effort: 'high',
    });
  });

  it.each<[string, JsonObject, string]>([
    ['no name', { ...MODEL, model_id: null }, 'model.model_id is required'],
    ['a blank name', { ...MODEL, model_id: ' ' }, 'model.model_id is required'],
    ['no key', { ...MODEL, credential: {} }, 'model.credential.openai_api_key is required'],
    ['an empty key', { ...MODEL, credential: { openai_api_key: '' } }, 'model.credential.openai_api_key is required'],
    [
      'a provider without a codec',
      { ...MODEL, model_provider: 'bedrock/converse' },
      'model.model_provider bedrock/converse is not served yet. Use openai/v1/chat/completions, or register a connector and a model and name it in llm.model_id.',
    ],
    [
      'an unknown provider',
      { ...MODEL, model_provider: 'toString' },
      'model.model_provider must be one of [openai/v1/chat/completions, bedrock/converse, gemini/v1beta/generatecontent]',
    ],
    [
      'no provider',
      { model_id: 'm' },
      'model.model_provider must be one of [openai/v1/chat/completions, bedrock/converse, gemini/v1beta/generatecontent]',
    ],
  ])('is refused with %s', async (_name, model, message) => {
    await expect(register(model)).rejects.toThrow(message);
  });
});
