import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openAiChat } from '../../src/llm/codecs/openai-chat.ts';
import type { ModelRequest, TemplateParameter } from '../../src/llm/types.ts';

const REQUEST: ModelRequest = {
  system: 'Be brief.',
  history: [
    { role: 'user', text: 'old question' },
    { role: 'assistant', text: 'old answer', toolCalls: [] },
  ],
  question: 'new question',
  interactions: [{ role: 'tool', toolCallId: 'c1', name: 'get', text: 'found', isError: false }],
  tools: [{ name: 'get', description: 'Gets', inputSchema: { type: 'object', properties: {} } }],
  parameters: {},
};

const SYSTEM = { role: 'system', content: 'Be brief.' };
const HISTORY = [
  { role: 'user', content: 'old question' },
  { role: 'assistant', content: 'old answer' },
];
const QUESTION = { role: 'user', content: 'new question' };
const FOUND = { role: 'tool', tool_call_id: 'c1', content: 'found' };
const TOOLS = [
  { type: 'function', function: { name: 'get', description: 'Gets', parameters: { type: 'object', properties: {} } } },
];

function merged(body: JsonObject, placed: TemplateParameter[], request: ModelRequest = REQUEST): JsonObject {
  return openAiChat.encode(request).merge(body, new Set(placed));
}

describe('merging into a rendered body', () => {
  it('adds everything to a body without messages and keeps its other members', () => {
    expect(merged({ model: 'm', temperature: 0.5 }, [])).toEqual({
      model: 'm',
      temperature: 0.5,
      messages: [SYSTEM, ...HISTORY, QUESTION, FOUND],
      tools: TOOLS,
    });
  });

  it('does not change the body it was given', () => {
    const body = { messages: [QUESTION] };
    merged(body, ['prompt']);
    expect(body).toEqual({ messages: [{ role: 'user', content: 'new question' }] });
  });

  it.each(['prompt', 'question'] as const)('does not double the question of a template that holds ${%s}', (placed) => {
    expect(merged({ messages: [QUESTION] }, [placed]).messages).toEqual([SYSTEM, ...HISTORY, QUESTION, FOUND]);
  });

  it('does not double a system prompt that the template holds', () => {
    const body = { messages: [SYSTEM, QUESTION] };
    expect(merged(body, ['prompt', 'system_prompt']).messages).toEqual([SYSTEM, ...HISTORY, QUESTION, FOUND]);
  });

  it.each(['system', 'developer'])('continues a fixed %s message of the template', (role) => {
    const body = { messages: [{ role, content: 'You sell tea.' }, QUESTION] };
    expect(merged(body, ['prompt']).messages).toEqual([
      { role, content: 'You sell tea.\n\nBe brief.' },
      ...HISTORY,
      QUESTION,
      FOUND,
    ]);
  });

  it('puts a system message in front when the fixed one is not a text', () => {
    const fixed = { role: 'system', content: [{ type: 'text', text: 'You sell tea.' }] };
    expect(merged({ messages: [fixed, QUESTION] }, ['prompt']).messages).toEqual([
      SYSTEM,
      fixed,
      ...HISTORY,
      QUESTION,
      FOUND,
    ]);
  });

  it('adds no system message when the agent has no system prompt', () => {
    const { system: _, ...request } = REQUEST;
    expect(merged({ messages: [QUESTION] }, ['prompt'], request).messages).toEqual([...HISTORY, QUESTION, FOUND]);
  });

  it('adds the history alone where interactions have their place', () => {
    const body = { messages: [QUESTION, FOUND] };
    expect(merged(body, ['prompt', '_interactions', 'system_prompt']).messages).toEqual([...HISTORY, QUESTION, FOUND]);
  });

  it('adds the interactions alone where the history has its place', () => {
    const body = { messages: [...HISTORY, QUESTION] };
    expect(merged(body, ['prompt', '_chat_history', 'system_prompt']).messages).toEqual([...HISTORY, QUESTION, FOUND]);
  });

  it('finds the question before a closing message of the user', () => {
    const closing = { role: 'user', content: 'Answer in French.' };
    expect(merged({ messages: [QUESTION, closing] }, ['prompt', 'system_prompt']).messages).toEqual([
      ...HISTORY,
      QUESTION,
      closing,
      FOUND,
    ]);
  });

  it('finds the question inside a text part', () => {
    const parts = { role: 'user', content: [7, { type: 'text', text: 'Q: new question' }] };
    const closing = { role: 'user', content: [{ type: 'text', text: 'Answer in French.' }] };
    expect(merged({ messages: [parts, closing] }, ['prompt', 'system_prompt']).messages).toEqual([
      ...HISTORY,
      parts,
      closing,
      FOUND,
    ]);
  });

  it('takes the last message of the user for the question when the template reworded it', () => {
    const shot = { role: 'user', content: 'example' };
    const reply = { role: 'assistant', content: 'example reply' };
    const reworded = { role: 'user', content: 'NEW QUESTION' };
    expect(merged({ messages: [shot, reply, reworded] }, ['prompt', 'system_prompt']).messages).toEqual([
      shot,
      reply,
      ...HISTORY,
      reworded,
      FOUND,
    ]);
  });

  it('appends the history when the template gives the user no message of its own', () => {
    const summary = { role: 'assistant', content: 'new question' };
    expect(merged({ messages: [summary] }, ['prompt', 'system_prompt']).messages).toEqual([summary, ...HISTORY, FOUND]);
  });

  it('asks the question after the fixed messages of a template without a place for it', () => {
    const shot = { role: 'user', content: 'example' };
    expect(merged({ messages: [shot] }, ['system_prompt']).messages).toEqual([shot, ...HISTORY, QUESTION, FOUND]);
  });

  it('leaves the messages of a template that takes them all', () => {
    const body = { messages: [QUESTION] };
    expect(merged(body, ['messages'])).toStrictEqual({ messages: [QUESTION], tools: TOOLS });
  });

  it('leaves the tools of a template that places them', () => {
    expect(merged({ tools: ['placed'] }, ['messages', 'tool_configs'])).toEqual({ tools: ['placed'] });
  });

  it('leaves the fixed tools of a template when the agent has none', () => {
    const request = { ...REQUEST, tools: [], parallelToolCalls: true };
    expect(merged({ tools: ['fixed'] }, ['messages'], request)).toEqual({ tools: ['fixed'] });
  });

  it('sends parallel_tool_calls only when the agent sets it', () => {
    expect(merged({}, ['messages'], { ...REQUEST, parallelToolCalls: false })).toEqual({
      tools: TOOLS,
      parallel_tool_calls: false,
    });
  });

  it('replaces messages that are no list', () => {
    expect(merged({ messages: 'none' }, []).messages).toEqual([SYSTEM, ...HISTORY, QUESTION, FOUND]);
  });

  it('keeps an entry that is no message', () => {
    expect(merged({ messages: [null, QUESTION] }, ['prompt', 'system_prompt']).messages).toEqual([
      null,
      ...HISTORY,
      QUESTION,
      FOUND,
    ]);
  });
});
