import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { ModelAnswerError } from '../../src/llm/codecs/answer-error.ts';
import { openAiChat } from '../../src/llm/codecs/openai-chat.ts';

function reply(message: JsonValue, finish: JsonValue = 'stop', rest: JsonObject = {}): JsonObject {
  return { id: 'chatcmpl-1', choices: [{ index: 0, finish_reason: finish, message }], ...rest };
}

function failure(response: JsonValue): string {
  try {
    openAiChat.decode(response);
  } catch (error) {
    expect(error).toBeInstanceOf(ModelAnswerError);
    expect((error as Error).name).toBe('ModelAnswerError');
    return (error as Error).message;
  }
  throw new Error('expected a ModelAnswerError');
}

const call = (definition: JsonValue, id: JsonValue = 'c1') => ({ id, type: 'function', function: definition });

describe('reading an answer', () => {
  it('gives text, stop reason and usage', () => {
    const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 19 };
    expect(openAiChat.decode(reply({ role: 'assistant', content: 'Hello', refusal: null }, 'stop', { usage }))).toEqual(
      {
        text: 'Hello',
        toolCalls: [],
        stopReason: 'stop',
        wireStopReason: 'stop',
        usage: { inputTokens: 11, outputTokens: 7, totalTokens: 19 },
      },
    );
  });

  it.each([
    [
      { prompt_tokens: 3, completion_tokens: 4 },
      { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
    ],
    [{ prompt_tokens: 3 }, { inputTokens: 3, outputTokens: 0, totalTokens: 3 }],
    [
      { completion_tokens: 4, total_tokens: 9 },
      { inputTokens: 0, outputTokens: 4, totalTokens: 9 },
    ],
    [{ prompt_tokens: '3' }, undefined],
    [{ total_tokens: 9 }, undefined],
    [null, undefined],
    [5, undefined],
  ])('reads usage %j as %j', (usage, expected) => {
    expect(openAiChat.decode(reply({ content: 'x' }, 'stop', { usage })).usage).toEqual(expected);
  });

  it('has no usage member when the provider sends none', () => {
    expect('usage' in openAiChat.decode(reply({ content: 'x' }))).toBe(false);
  });

  it('joins text parts and skips others', () => {
    const content = [{ type: 'text', text: 'a' }, { type: 'image' }, 'no part', { type: 'text', text: 'b' }];
    expect(openAiChat.decode(reply({ content })).text).toBe('ab');
  });

  it.each([
    ['stop', 'stop'],
    ['tool_calls', 'stop'],
    ['function_call', 'stop'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
    ['eos', 'other'],
    [null, 'other'],
  ])('reads finish_reason %j of a text as %s', (finish, expected) => {
    const answer = openAiChat.decode(reply({ content: 'x' }, finish));
    expect(answer.stopReason).toBe(expected);
    expect(answer.wireStopReason).toBe(finish ?? undefined);
  });

  it.each([
    ['stop', 'tool_calls'],
    ['tool_calls', 'tool_calls'],
    [null, 'tool_calls'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
  ])('reads finish_reason %j of tool calls as %s', (finish, expected) => {
    const message = { content: null, tool_calls: [call({ name: 'n', arguments: '{}' })] };
    expect(openAiChat.decode(reply(message, finish)).stopReason).toBe(expected);
  });

  it('calls a text beside a refusal a refusal', () => {
    expect(openAiChat.decode(reply({ content: 'partly', refusal: 'no' }))).toMatchObject({
      text: 'partly',
      stopReason: 'refusal',
      wireStopReason: 'stop',
    });
  });
});

describe('tool calls', () => {
  const calls = (list: JsonValue, id: JsonValue = 'chatcmpl-1') =>
    openAiChat.decode({ ...reply({ content: null, tool_calls: list }, 'tool_calls'), id }).toolCalls;

  it('keep id, name and the raw text of the arguments, digits included', () => {
    expect(calls([call({ name: 'get', arguments: '{"id":2512292042121000001}' })])).toEqual([
      { id: 'c1', name: 'get', arguments: '{"id":2512292042121000001}' },
    ]);
  });

  it('come in order beside a text', () => {
    const message = {
      content: 'one moment',
      tool_calls: [call({ name: 'a', arguments: '{}' }, 'x'), call({ name: 'b', arguments: ' {"k":1} ' }, 'y')],
    };
    expect(openAiChat.decode(reply(message, 'tool_calls'))).toMatchObject({
      text: 'one moment',
      toolCalls: [
        { id: 'x', name: 'a', arguments: '{}' },
        { id: 'y', name: 'b', arguments: ' {"k":1} ' },
      ],
    });
  });

  it.each([
    ['', ''],
    ['  \n', ''],
    [null, ''],
    ['{"id": 7', '{"id": 7'],
    [{ city: 'Oslo' }, '{"city":"Oslo"}'],
  ])('read arguments %j as %j', (args, expected) => {
    expect(calls([call({ name: 'n', arguments: args })])[0]?.arguments).toBe(expected);
  });

  it('may have no arguments member', () => {
    expect(calls([call({ name: 'n' })])).toEqual([{ id: 'c1', name: 'n', arguments: '' }]);
  });

  it.each([undefined, null, '', 5])('without an id (%j) get one that is always the same', (id) => {
    const list = [{ ...(id === undefined ? {} : { id }), function: { name: 'n', arguments: '{}' } }];
    const [first] = calls(list);
    expect(first?.id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(calls(list)).toEqual([first]);
  });

  it('get generated ids that differ by answer, place, name and arguments', () => {
    const of = (name: string, args: string) => ({ function: { name, arguments: args } });
    const list = calls([of('a', '{}'), of('a', '{}'), of('b', '{}'), of('a', '{"x":1}')]);
    const other = calls([of('a', '{}')], 'chatcmpl-2');
    const without = calls([of('a', '{}')], null);
    expect(new Set([...list, ...other, ...without].map(({ id }) => id)).size).toBe(6);
  });

  it('keep the first of two equal ids', () => {
    const [first, second, third] = calls([
      call({ name: 'a', arguments: '{}' }, 'same'),
      call({ name: 'a', arguments: '{}' }, 'same'),
      call({ name: 'a', arguments: '{}' }, 'same'),
    ]);
    expect(first?.id).toBe('same');
    expect(second?.id).toMatch(/^call_/);
    expect(third?.id).toMatch(/^call_/);
    expect(third?.id).not.toBe(second?.id);
  });

  it.each([
    [[call({ name: '', arguments: '{}' })], 1],
    [[call({ name: ' ', arguments: '{}' })], 1],
    [[call({ name: 7, arguments: '{}' })], 1],
    [[call({ name: 'ok', arguments: '{}' }), call(null, 'c2')], 2],
    [['no call'], 1],
    [[null], 1],
  ])('without a function name are an error: %j', (list, place) => {
    expect(failure(reply({ content: 'x', tool_calls: list }, 'tool_calls'))).toBe(
      `tool call ${place} of the answer names no function`,
    );
  });

  it.each([null, 'none', {}])('that are no list (%j) are none', (list) => {
    expect(openAiChat.decode(reply({ content: 'x', tool_calls: list })).toolCalls).toEqual([]);
  });
});

describe('an answer that cannot be used', () => {
  it.each<[string, JsonValue, string]>([
    ['empty choices', { choices: [] }, 'the answer has empty choices'],
    ['no choices', {}, 'the answer has no choices'],
    ['choices that are no list', { choices: 'x' }, 'the answer has no choices'],
    ['a choice that is no object', { choices: [null] }, 'the first choice of the answer is not an object'],
    ['a list', [], 'the answer is not a JSON object'],
    ['null', null, 'the answer is not a JSON object'],
    ['a number', 7, 'the answer is not a JSON object'],
    ['a reported error', { error: { message: 'overloaded', code: 503 } }, 'the answer reports an error: overloaded'],
    ['an error text', { error: 'overloaded' }, 'the answer reports an error: overloaded'],
    ['an error without a message', { error: { code: 503 } }, 'the answer reports an error: {"code":503}'],
    ['an error with an empty message', { error: { message: '' } }, 'the answer reports an error: {"message":""}'],
    ['an error with empty choices', { error: { message: 'x' }, choices: [] }, 'the answer reports an error: x'],
    ['a null error', { error: null, choices: [] }, 'the answer has empty choices'],
    ['an empty error', { error: '', choices: [] }, 'the answer has empty choices'],
    ['a null message', reply(null), 'the first choice of the answer has no message (finish_reason: stop)'],
    [
      'a null message with an error of its own',
      { choices: [{ message: null, error: { message: 'upstream died' } }] },
      'the first choice of the answer has no message (finish_reason: none): upstream died',
    ],
    [
      'a null message beside an error',
      { choices: [{ finish_reason: 'error' }], error: 'upstream died' },
      'the first choice of the answer has no message (finish_reason: error): upstream died',
    ],
    [
      'filtered content',
      reply({ content: null }, 'content_filter'),
      'the answer was removed by the content filter of the provider (finish_reason: content_filter)',
    ],
    [
      'a refusal',
      reply({ content: null, refusal: 'I cannot.' }),
      'the model gave a refusal in place of an answer: I cannot. (finish_reason: stop)',
    ],
    [
      'a refusal by the filter',
      reply({ content: '', refusal: 'I cannot.' }, 'content_filter'),
      'the model gave a refusal in place of an answer: I cannot. (finish_reason: content_filter)',
    ],
    [
      'a spent token budget',
      reply({ content: null }, 'length'),
      'the token limit was spent before any text was written (finish_reason: length); raise max_tokens',
    ],
    [
      'null content',
      reply({ content: null, refusal: ' ' }),
      'the answer holds neither text nor tool calls (finish_reason: stop)',
    ],
    [
      'blank content',
      reply({ content: ' \n' }, null),
      'the answer holds neither text nor tool calls (finish_reason: none)',
    ],
    [
      'tool calls that are not there',
      reply({ content: null, tool_calls: [] }, 'tool_calls'),
      'the answer holds neither text nor tool calls (finish_reason: tool_calls)',
    ],
  ])('says so: %s', (_name, response, message) => {
    expect(failure(response)).toBe(message);
  });

  it.each([
    'data: {"choices":[]}\n\n',
    '\n: ping\n\ndata: {}',
    'event: message\ndata: {}',
    '\ufeffdata: [DONE]',
    'id: 7\n',
    'retry: 100',
  ])('says that a stream came unasked: %j', (text) => {
    expect(failure(text)).toBe(
      'the answer is an event stream although none was asked for; set "stream" to false in the request body',
    );
  });

  it.each(['<html>', 'The data: none', 'datas: 1', ''])('says that a text is not JSON: %j', (text) => {
    expect(failure(text)).toBe('the answer is not JSON');
  });
});
