import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/json.ts';
import { applyResponseFilter } from '../../src/models/response-filter.ts';

const ANSWER = {
  choices: [{ message: { content: 'a' } }, { message: { content: 'b' } }],
  'my-key': { 'x-y': 1 },
  'a-b.c': 2,
  "it's": { k: 4 },
  'odd:name': 3,
  none: null,
};

describe('a response filter', () => {
  it.each<[string, JsonValue]>([
    ['$', ANSWER],
    ['$.choices[0].message.content', 'a'],
    [" $['choices'][1]['message'].content ", 'b'],
    ['$.choices[-1].message', { content: 'b' }],
    ['choices[0].message.content', 'a'],
    ["['choices'][0].message.content", 'a'],
    ['$.none', null],
    ['$.my-key.x-y', 1],
    ["$['a-b.c']", 2],
    ['$["it\'s"].k', 4],
    ["$['odd:name']", 3],
  ])('%s gives the one value %j', (filter, expected) => {
    expect(applyResponseFilter(ANSWER, filter)).toEqual(expected);
  });

  it.each<[string, JsonValue]>([
    ['$.choices[*].message.content', ['a', 'b']],
    ['$.choices.*.message.content', ['a', 'b']],
    ['$..content', ['a', 'b']],
    ['$.choices[0:1].message.content', ['a']],
    ['$.choices[0,1].message.content', ['a', 'b']],
    ["$.choices[?(@.message.content == 'b')].message.content", ['b']],
    ['$.choices[*].nothing', []],
  ])('%s gives the list %j', (filter, expected) => {
    expect(applyResponseFilter(ANSWER, filter)).toEqual(expected);
  });

  it('that names one missing place says so', () => {
    expect(() => applyResponseFilter(ANSWER, '$.choices[2].message')).toThrow(
      'response_filter $.choices[2].message finds nothing in the answer of the remote service',
    );
  });

  it.each(['$.choices[', '$.', '', '$.choices.length()'])('that is no JSONPath says so: %j', (filter) => {
    expect(() => applyResponseFilter(ANSWER, filter)).toThrow(`response_filter ${filter} is not a valid JSONPath`);
  });
});
