import { describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/types.ts';
import { checkLlmInterface, codecNamed, codecOf } from '../../src/llm/codec.ts';

function connector(url: string, parameters: Record<string, string> = {}, type = 'PREDICT'): Connector {
  return {
    id: 'c',
    name: 'provider',
    protocol: 'http',
    parameters,
    actions: [{ action_type: type, method: 'POST', url }],
    clientConfig: {
      max_connection: 30,
      connection_timeout: 30,
      read_timeout: 30,
      retry_backoff_policy: 'constant',
      max_retry_times: 0,
      retry_backoff_millis: 200,
      retry_timeout_seconds: 30,
      skip_ssl_verification: false,
      max_total_timeout: 300,
      protocol_version: 'auto',
      elicitation: 'decline',
    },
    revision: 1,
  };
}

const OPENAI = 'openai/v1/chat/completions';

describe('an _llm_interface', () => {
  it.each([OPENAI, ' OpenAI/v1/Chat/Completions\n'])('%j is served', (name) => {
    expect(codecNamed(name).name).toBe(OPENAI);
    expect(checkLlmInterface(name)).toBe(OPENAI);
  });

  it.each(['bedrock/converse/claude', 'bedrock/converse/deepseek_r1', 'gemini/v1beta/generatecontent'])(
    '%s is a valid name that has no codec yet',
    (name) => {
      expect(checkLlmInterface(name)).toBe(name);
      expect(() => codecNamed(name)).toThrow(
        `_llm_interface ${name} is a valid name, but it is not served yet. Use a model behind an address that ends in /chat/completions (${OPENAI}).`,
      );
    },
  );

  it.each(['', ' \t'])('%j is blank', (name) => {
    expect(() => codecNamed(name)).toThrow('_llm_interface cannot be blank or empty');
    expect(() => checkLlmInterface(name)).toThrow('_llm_interface cannot be blank or empty');
  });

  it.each(['openai', 'constructor', '__proto__'])('%s is unknown', (name) => {
    expect(() => codecNamed(name)).toThrow('Invalid _llm_interface');
  });
});

describe('the wire format of a model', () => {
  it.each<[string, Record<string, string>]>([
    ['https://api.openai.com/v1/chat/completions', {}],
    ['https://${parameters.endpoint}/v1/chat/completions/', { endpoint: 'api.openai.com' }],
    ['https://h.example/openai/deployments/${parameters.model}/chat/completions?api-version=1', { model: 'm' }],
    ['https://h.example/${parameters.tenant}/chat/completions#x', {}],
    ['${parameters.endpoint}', { endpoint: 'https://h.example/chat/completions' }],
    ['https://${parameters.unset}/v1/chat/completions', {}],
  ])('of %s is that of chat completions', (url, parameters) => {
    expect(codecOf(connector(url, parameters), 'm').name).toBe(OPENAI);
  });

  it('is told from the predict action, however it is spelled', () => {
    expect(codecOf(connector('https://h.example/chat/completions', {}, 'predict'), 'm').name).toBe(OPENAI);
    expect(() => codecOf(connector('https://h.example/chat/completions', {}, 'EXECUTE'), 'm')).toThrow(
      'cannot be told',
    );
  });

  it.each([
    ['https://bedrock-runtime.us-east-1.amazonaws.com/model/x/converse', 'bedrock/converse/claude'],
    ['https://bedrock-runtime.us-east-1.amazonaws.com/model/x/converse-stream', 'bedrock/converse/claude'],
    ['https://g.example/v1beta/models/gemini:generateContent?key=x', 'gemini/v1beta/generatecontent'],
    ['https://g.example/v1beta/models/gemini:streamGenerateContent', 'gemini/v1beta/generatecontent'],
    ['https://api.anthropic.com/v1/messages', 'anthropic/v1/messages'],
    ['https://api.openai.com/v1/responses', 'openai/v1/responses'],
  ])('of %s is recognised and not served yet', (url, name) => {
    expect(() => codecOf(connector(url), 'gpt')).toThrow(
      `The wire format ${name} of model gpt is not served yet. Use a model behind an address that ends in /chat/completions (${OPENAI}).`,
    );
  });

  it.each([
    'https://h.example/v1/embeddings',
    'https://h.example/chat/completions/more',
    'https://h.example/?x=/chat/completions',
  ])('of %s cannot be told', (url) => {
    expect(() => codecOf(connector(url), 'gpt')).toThrow(
      `The wire format of model gpt cannot be told from the predict url of its connector provider. Set the agent's parameters._llm_interface, for example to ${OPENAI}.`,
    );
  });

  it('cannot be told without actions', () => {
    const { actions: _, ...without } = connector('');
    expect(() => codecOf(without, 'gpt')).toThrow('cannot be told');
  });
});
