import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { offeredSchema } from '../../src/tools/offered-schema.ts';

const string = { type: 'string' };
const number = { type: 'number' };
const branch = (properties: JsonObject, ...required: string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
});

describe('the schema a model is offered', () => {
  it('is that of the server where its root is an object', () => {
    const schema = { type: 'object', properties: { a: { anyOf: [string, number] } }, $defs: { x: { allOf: [] } } };
    expect(offeredSchema(schema)).toBe(schema);
  });

  it.each(['anyOf', 'oneOf'])('takes all that one of the branches takes: %s', (keyword) => {
    const schema = {
      type: 'object',
      properties: { common: string },
      required: ['common'],
      [keyword]: [branch({ id: string, n: number }, 'id', 'n'), branch({ id: string, n: string, x: string }, 'id')],
    };
    expect(offeredSchema(schema)).toEqual({
      type: 'object',
      properties: { common: string, id: string, n: { anyOf: [number, string] }, x: string },
      required: ['common', 'id'],
    });
  });

  it('wants what all of several parts want', () => {
    const schema = {
      type: 'object',
      allOf: [branch({ a: string }, 'a'), { $ref: '#/$defs/b~1c' }],
      $defs: { 'b/c': branch({ b: number }, 'b') },
    };
    expect(offeredSchema(schema)).toEqual({
      type: 'object',
      properties: { a: string, b: number },
      required: ['a', 'b'],
      $defs: schema.$defs,
    });
  });

  it('is what its root refers to', () => {
    const schema = {
      type: 'object',
      properties: {},
      $ref: '#/definitions/Args',
      definitions: { Args: branch({ q: string }, 'q') },
    };
    expect(offeredSchema(schema)).toMatchObject({ properties: { q: string }, required: ['q'] });
    expect(offeredSchema(schema)).not.toHaveProperty('$ref');
  });

  it.each([
    ['nowhere', { $ref: '#/$defs/none' }],
    ['into the network', { $ref: 'http://127.0.0.1:9/x.json' }],
    ['to itself', { $ref: '#' }],
    ['in circles', { allOf: [{ $ref: '#/allOf/0' }, { $ref: '#/allOf/0' }] }],
    ['at a list', { $ref: '#/required' }],
    ['at a prototype', { $ref: '#/__proto__/constructor' }],
  ])('has nothing of a reference %s', (_where, more) => {
    const schema = { type: 'object', properties: { own: string }, required: ['own'], ...more } as JsonObject;
    expect(offeredSchema(schema)).toEqual({ type: 'object', properties: { own: string }, required: ['own'] });
  });

  it('has no rule at its root that narrows it', () => {
    const rules = '"not":{},"enum":[{"a":"x"}],"if":{},"then":{},"else":{},"dependentSchemas":{}';
    const schema = JSON.parse(`{"type":"object","properties":{"a":{"type":"string"}},${rules}}`) as JsonObject;
    expect(offeredSchema(schema)).toEqual({ type: 'object', properties: { a: string } });
  });
});
