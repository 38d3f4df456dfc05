import { describe, expect, it } from 'vitest';
import { emptyBodyError, providerError, unusableAnswerError } from '../../src/llm/provider-error.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

function failure(status: number, body = '{"error":{"message":"why"}}', headers: Record<string, string> = {}) {
  return providerError({ status, headers, body }, 'model gpt', createRedactor(), NOW);
}

describe('the failure of a provider', () => {
  it.each([
    [400, 'invalid_response', false, 'unknown'],
    [401, 'auth_required', false, 'no'],
    [403, 'forbidden', false, 'no'],
    [404, 'wrong_path', false, 'unknown'],
    [405, 'method_not_allowed', false, 'unknown'],
    [408, 'invalid_response', true, 'unknown'],
    [429, 'rate_limited', true, 'no'],
    [500, 'server_error', true, 'unknown'],
    [501, 'server_error', false, 'unknown'],
    [503, 'server_error', true, 'unknown'],
    [599, 'server_error', true, 'unknown'],
  ])('with status %d is %s, retryable %s, delivered %s', (status, code, retryable, delivered) => {
    expect(failure(status)).toMatchObject({
      code,
      retryable,
      delivered,
      statusCode: status,
      upstreamStatus: status,
      destination: 'model gpt',
      message: 'Error from remote service: why',
    });
  });

  it.each([302, 600])('with status %d becomes 502 for our own caller', (status) => {
    expect(failure(status)).toMatchObject({ statusCode: 502, upstreamStatus: status });
  });

  it.each([
    [{ 'retry-after': '7' }, 7000],
    [{ 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' }, 60_000],
    [{ 'retry-after': 'soon' }, undefined],
    [{}, undefined],
  ])('with headers %j asks to wait %s ms', (headers, expected) => {
    expect(failure(429, '{}', headers).retryAfterMs).toBe(expected);
  });

  it.each([
    ['"quoted text"', 'quoted text'],
    ['[{"message":"first"},{"message":"second"}]', 'first'],
    ['{"errors":["one","two"]}', 'one'],
    ['{"error":{"code":7},"message":"outer"}', 'outer'],
    ['{"error":"","detail":"more"}', 'more'],
    ['[]', '[]'],
    ['""', '""'],
    ['null', 'null'],
    ['  plain  ', 'plain'],
    [
      '<?xml version="1.0"?><e/>',
      'status 500 with an HTML page, so the url of the connector may be wrong or a proxy answered',
    ],
    ['<!DOCTYPE html>', 'status 500 with an HTML page, so the url of the connector may be wrong or a proxy answered'],
    ['a < b', 'a < b'],
  ])('with body %j says %j', (body, message) => {
    expect(failure(500, body).message).toBe(`Error from remote service: ${message}`);
  });

  it('reads JSON even where it is called HTML', () => {
    expect(failure(500, '{"message":"m"}', { 'content-type': 'text/html' }).message).toBe(
      'Error from remote service: m',
    );
  });

  it('never ends in half a surrogate pair', () => {
    const text = `${'x'.repeat(499)}😀`;
    expect(failure(500, JSON.stringify({ message: text })).message).toBe(
      `Error from remote service: ${'x'.repeat(499)}`,
    );
    expect(failure(500, `😀${'x'.repeat(500)}`).message).toBe(`Error from remote service: 😀${'x'.repeat(498)}`);
    expect(failure(500, 'x'.repeat(500)).message).toBe(`Error from remote service: ${'x'.repeat(500)}`);
  });

  it('without a body or with an unusable one is a 502', () => {
    expect(emptyBodyError('model gpt', 204)).toMatchObject({
      code: 'invalid_response',
      statusCode: 502,
      upstreamStatus: 204,
      destination: 'model gpt',
      message: 'Remote service returned empty response body',
    });
    expect(unusableAnswerError('x'.repeat(600), 'model gpt', 200)).toMatchObject({
      code: 'invalid_response',
      statusCode: 502,
      upstreamStatus: 200,
      message: `Error from remote service: model gpt answered with status 200, but ${'x'.repeat(500)}`,
    });
  });
});
