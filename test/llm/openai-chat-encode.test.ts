import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openAiChat } from '../../src/llm/codecs/openai-chat.ts';
import type { Message, ModelRequest } from '../../src/llm/types.ts';

const BARE: ModelRequest = { history: [], question: 'q', interactions: [], tools: [], parameters: {} };

const HISTORY: Message[] = [
  { role: 'user', text: 'before' },
  { role: 'assistant', text: 'answered', toolCalls: [] },
];

const INTERACTIONS: Message[] = [
  { role: 'assistant', text: '', toolCalls: [{ id: 'c1', name: 'get', arguments: '{"id":2512292042121000001}' }] },
  { role: 'tool', toolCallId: 'c1', name: 'get', text: 'found', isError: false },
];

const TOOL = { name: 'get', description: 'Gets one', inputSchema: { type: 'object', properties: {} } };
const WIRE_TOOL = {
  type: 'function',
  function: { name: 'get', description: 'Gets one', parameters: { type: 'object', properties: {} } },
};

function messagesOf(request: ModelRequest): JsonObject[] {
  return JSON.parse(openAiChat.encode(request).parameters.messages ?? '') as JsonObject[];
}

describe('the fragments of a request', () => {
  it('answers to its interface name', () => {
    expect(openAiChat.name).toBe('openai/v1/chat/completions');
  });

  it('are empty when there is nothing to say', () => {
    expect(openAiChat.encode(BARE).fragments).toEqual({ _chat_history: '', _interactions: '', tool_configs: '' });
  });

  it('end each history entry and begin each interaction with a comma', () => {
    const { fragments } = openAiChat.encode({ ...BARE, history: HISTORY, interactions: INTERACTIONS });
    expect(fragments._chat_history).toBe(
      '{"role":"user","content":"before"}, {"role":"assistant","content":"answered"}, ',
    );
    expect(fragments._interactions).toBe(
      ', {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\\"id\\":2512292042121000001}"}}]}' +
        ', {"role":"tool","tool_call_id":"c1","content":"found"}',
    );
  });

  it('name the tools, and parallel calls only when the agent says so', () => {
    const tools = `, "tools":${JSON.stringify([WIRE_TOOL])}`;
    const configs = (parallelToolCalls?: boolean) =>
      openAiChat.encode({ ...BARE, tools: [TOOL], ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }) })
        .fragments.tool_configs;
    expect(configs()).toBe(tools);
    expect(configs(false)).toBe(`${tools}, "parallel_tool_calls": false`);
    expect(configs(true)).toBe(`${tools}, "parallel_tool_calls": true`);
  });

  it('say nothing of parallel calls without tools', () => {
    expect(openAiChat.encode({ ...BARE, parallelToolCalls: true }).fragments.tool_configs).toBe('');
  });

  it('pass on strict only when it is set', () => {
    const { fragments } = openAiChat.encode({ ...BARE, tools: [{ ...TOOL, strict: false }] });
    expect(JSON.parse(`{"x":1${fragments.tool_configs}}`)).toStrictEqual({
      x: 1,
      tools: [{ type: 'function', function: { ...WIRE_TOOL.function, strict: false } }],
    });
  });
});

describe('the parameters of a request', () => {
  it('hold the question, the system prompt and the values of the call', () => {
    const { parameters } = openAiChat.encode({ ...BARE, system: 's', parameters: { model: 'm', prompt: 'not this' } });
    expect(parameters).toEqual({
      question: 'q',
      model: 'm',
      prompt: 'q',
      messages: '[{"role":"system","content":"s"},{"role":"user","content":"q"}]',
      system_prompt: 's',
    });
  });

  it('keep a question of the call that differs from the prompt, and no system prompt where there is none', () => {
    const { parameters } = openAiChat.encode({ ...BARE, parameters: { question: 'original' } });
    expect(parameters).toStrictEqual({
      question: 'original',
      prompt: 'q',
      messages: '[{"role":"user","content":"q"}]',
    });
  });
});

describe('messages', () => {
  it('stand in the order system, history, question, interactions', () => {
    const request = { ...BARE, system: 's', history: HISTORY, interactions: INTERACTIONS };
    expect(messagesOf(request)).toEqual([
      { role: 'system', content: 's' },
      { role: 'user', content: 'before' },
      { role: 'assistant', content: 'answered' },
      { role: 'user', content: 'q' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'get', arguments: '{"id":2512292042121000001}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'found' },
    ]);
  });

  it('keep the text beside tool calls', () => {
    const said: Message = {
      role: 'assistant',
      text: 'one moment',
      toolCalls: [{ id: 'a', name: 'n', arguments: '{}' }],
    };
    expect(messagesOf({ ...BARE, interactions: [said] })[1]).toEqual({
      role: 'assistant',
      content: 'one moment',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'n', arguments: '{}' } }],
    });
  });

  it.each([
    ['', '{}'],
    [' \n', '{}'],
    ['{"id": 7', '{"id": 7'],
    [' {"a":1} ', ' {"a":1} '],
  ])('send arguments %j back as %j', (text, sent) => {
    const call: Message = { role: 'assistant', text: '', toolCalls: [{ id: 'a', name: 'n', arguments: text }] };
    const [, message] = messagesOf({ ...BARE, interactions: [call] });
    expect(message).toMatchObject({ tool_calls: [{ function: { arguments: sent } }] });
  });

  it.each([
    ['search files!', 'search_files_'],
    ['日程', '__'],
    ['😀x', '_x'],
    ['', '_'],
    ['n'.repeat(65), 'n'.repeat(64)],
    ['ok_NAME-1', 'ok_NAME-1'],
  ])('send the invented tool name %j back as %j', (name, sent) => {
    const call: Message = { role: 'assistant', text: '', toolCalls: [{ id: 'a', name, arguments: '{}' }] };
    const [, message] = messagesOf({ ...BARE, interactions: [call] });
    expect(message).toMatchObject({ tool_calls: [{ function: { name: sent } }] });
  });
});

describe('texts', () => {
  const HALF = 'a\ud83db';
  const WHOLE = 'a\ufffdb';

  it('lose their lone surrogates wherever they stand', () => {
    const { fragments, parameters } = openAiChat.encode({
      system: HALF,
      history: [
        { role: 'user', text: HALF },
        { role: 'assistant', text: HALF, toolCalls: [] },
      ],
      question: HALF,
      interactions: [
        { role: 'assistant', text: HALF, toolCalls: [{ id: HALF, name: 'n', arguments: HALF }] },
        { role: 'tool', toolCallId: HALF, name: 'n', text: HALF, isError: false },
      ],
      tools: [
        { name: 'n', description: HALF, inputSchema: { type: 'object', [HALF]: { enum: [HALF, 1, null, [HALF]] } } },
      ],
      parameters: { context: HALF },
    });
    expect(fragments).toEqual({
      _chat_history: `{"role":"user","content":"${WHOLE}"}, {"role":"assistant","content":"${WHOLE}"}, `,
      _interactions:
        `, {"role":"assistant","content":"${WHOLE}","tool_calls":[{"id":"${WHOLE}","type":"function","function":{"name":"n","arguments":"${WHOLE}"}}]}` +
        `, {"role":"tool","tool_call_id":"${WHOLE}","content":"${WHOLE}"}`,
      tool_configs: `, "tools":[{"type":"function","function":{"name":"n","description":"${WHOLE}","parameters":{"type":"object","${WHOLE}":{"enum":["${WHOLE}",1,null,["${WHOLE}"]]}}}}]`,
    });
    expect(parameters.prompt).toBe(WHOLE);
    expect(parameters.question).toBe(WHOLE);
    expect(parameters.system_prompt).toBe(WHOLE);
    expect(parameters.context).toBe(WHOLE);
    expect(parameters.messages).not.toMatch(/\\ud83d/i);
  });

  it('keep whole pairs', () => {
    expect(openAiChat.encode({ ...BARE, question: '😀' }).parameters.prompt).toBe('😀');
  });

  it('of a tool description are cut at 1024 characters, never inside a pair', () => {
    const described = (description: string) =>
      JSON.parse(`{"x":1${openAiChat.encode({ ...BARE, tools: [{ ...TOOL, description }] }).fragments.tool_configs}}`)
        .tools[0].function.description as string;
    expect(described('d'.repeat(1024))).toBe('d'.repeat(1024));
    expect(described('d'.repeat(1025))).toBe(`${'d'.repeat(1023)}…`);
    expect(described(`😀${'d'.repeat(1023)}`)).toBe(`😀${'d'.repeat(1021)}…`);
    expect(described(`${'d'.repeat(1022)}😀${'d'.repeat(9)}`)).toBe(`${'d'.repeat(1022)}…`);
  });

  it('survive, any of them, as question, history and tool result', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const request: ModelRequest = {
          ...BARE,
          question: text,
          history: [{ role: 'user', text }],
          interactions: [{ role: 'tool', toolCallId: 'c', name: 'n', text, isError: false }],
        };
        const { fragments } = openAiChat.encode(request);
        const joined = `[${fragments._chat_history}{"role":"user","content":${JSON.stringify(text)}}${fragments._interactions}]`;
        const expected = [
          { role: 'user', content: text },
          { role: 'user', content: text },
          { role: 'tool', tool_call_id: 'c', content: text },
        ];
        expect(JSON.parse(joined)).toEqual(expected);
        expect(messagesOf(request)).toEqual(expected);
      }),
    );
  });

  it('never hold a lone surrogate after encoding, whatever code units come in', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 })), (units) => {
        const text = String.fromCharCode(...units);
        const { parameters } = openAiChat.encode({ ...BARE, question: text });
        expect(parameters.prompt).not.toMatch(/\p{Surrogate}/u);
        expect(parameters.prompt).toHaveLength(text.length);
      }),
    );
  });
});
