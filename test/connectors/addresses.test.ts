import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mcpAddress } from '../../src/connectors/mcp-address.ts';
import { compileText } from '../../src/connectors/template.ts';
import { renderOwnUrl, renderUrl } from '../../src/connectors/url-template.ts';

type Texts = Record<string, string>;

function url(template: string, own: Texts, given: Texts = {}): string {
  return renderUrl(compileText(template), own, given);
}

describe('the url of an action', () => {
  it.each<[string, string, Texts, Texts, string]>([
    ['plain', 'https://a.example/v1', {}, {}, 'https://a.example/v1'],
    ['own host', 'https://${parameters.host}/v1', { host: 'a.example' }, {}, 'https://a.example/v1'],
    [
      'own host with port and path',
      'https://${parameters.host}/v1',
      { host: 'a.example:8443/base' },
      {},
      'https://a.example:8443/base/v1',
    ],
    ['own base', '${parameters.base}/v1', { base: 'https://a.example/x' }, {}, 'https://a.example/x/v1'],
    ['default host', 'https://${parameters.host:-a.example}/v1', {}, {}, 'https://a.example/v1'],
    [
      'host in parts',
      'https://${parameters.a}.${parameters.b}/',
      { a: 'x', b: 'y.example' },
      {},
      'https://x.y.example/',
    ],
    [
      'given host that is the own one',
      'https://${parameters.host}/v1',
      { host: 'a.example' },
      { host: 'a.example' },
      'https://a.example/v1',
    ],
    ['own path value', 'https://a.example/${parameters.m}/x', { m: 'a b/c' }, {}, 'https://a.example/a%20b%2Fc/x'],
    ['given over own', 'https://a.example/${parameters.m}', { m: 'own' }, { m: 'given' }, 'https://a.example/given'],
    [
      'given in a query',
      'https://a.example/x?q=${parameters.q}',
      {},
      { q: 'a&b=c#d?e' },
      'https://a.example/x?q=a%26b%3Dc%23d%3Fe',
    ],
    [
      'query without path',
      'https://a.example?q=${parameters.q}',
      {},
      { q: '@evil.example/' },
      'https://a.example?q=%40evil.example%2F',
    ],
    ['default of a path', 'https://a.example/${parameters.m:-v1/x}', {}, {}, 'https://a.example/v1/x'],
    ['unicode', 'https://a.example/${parameters.m}', {}, { m: 'ä€' }, 'https://a.example/%C3%A4%E2%82%AC'],
    ['a lone surrogate', 'https://a.example/${parameters.m}', {}, { m: 'a\ud800' }, 'https://a.example/a%EF%BF%BD'],
    ['dots in a value', 'https://a.example/${parameters.m}', {}, { m: '...' }, 'https://a.example/...'],
  ])('is filled: %s', (_, template, own, given, expected) => {
    expect(url(template, own, given)).toBe(expected);
  });

  it.each<[string, string, Texts, Texts, string]>([
    [
      'a missing value',
      'https://a.example/${parameters.m}',
      {},
      {},
      "Parameter 'm' of the connector url has no value. Give it in parameters.",
    ],
    [
      'an empty value',
      'https://a.example/${parameters.m}',
      { m: 'x' },
      { m: '' },
      "Parameter 'm' of the connector url has no value.",
    ],
    ['a dot segment', 'https://a.example/u/${parameters.m}', {}, { m: '..' }, "Parameter 'm' must not be '..'"],
    ['a single dot', 'https://a.example/u/${parameters.m}', {}, { m: '.' }, "Parameter 'm' must not be '.'"],
    [
      'another host',
      'https://${parameters.host}/v1',
      { host: 'a.example' },
      { host: 'evil.example' },
      "Parameter 'host' cannot be changed by a request",
    ],
    [
      'another host than the default',
      'https://${parameters.host:-a.example}/v1',
      {},
      { host: 'evil.example' },
      "Parameter 'host' cannot be changed by a request",
    ],
    [
      'a host of the request alone',
      'https://${parameters.host}/v1',
      {},
      { host: 'evil.example' },
      "Parameter 'host' fills the host of the connector url, so the connector's own parameters must hold a value for it.",
    ],
    ['an empty host', 'https://${parameters.host}/v1', { host: '' }, {}, "Parameter 'host' fills the host"],
    [
      'a port of the request',
      'https://a.example${parameters.rest}/v1',
      { rest: ':443' },
      { rest: '@evil.example' },
      "Parameter 'rest' cannot be changed by a request",
    ],
    [
      'a scheme of the request',
      '${parameters.s}://a.example/v1',
      { s: 'https' },
      { s: 'http' },
      "Parameter 's' cannot be changed by a request",
    ],
  ])('is refused: %s', (_, template, own, given, message) => {
    expect(() => url(template, own, given)).toThrow(message);
  });

  it('is known without a call as far as own parameters go', () => {
    const template = compileText('https://${parameters.host}/${parameters.m}/${parameters.n:-x}?q=${parameters.q}');
    expect(renderOwnUrl(template, { host: 'a.example', q: 'a b' })).toBe('https://a.example/${parameters.m}/x?q=a%20b');
    expect(() => renderOwnUrl(template, {})).toThrow("Parameter 'host' fills the host");
  });

  it('keeps its origin whatever a request gives', () => {
    const templates = [
      'https://${parameters.h}/${parameters.a}?q=${parameters.b}',
      'https://a.example?${parameters.a}#${parameters.b}',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...templates), hostileText(), hostileText(), (template, a, b) => {
        const rendered = tryUrl(() => url(template, { h: 'a.example' }, { a, b }));
        if (rendered !== undefined) expect(new URL(rendered).origin).toBe('https://a.example');
      }),
    );
  });
});

describe('the address of an MCP server', () => {
  it.each<[string, string | undefined, string]>([
    ['https://a.example', undefined, 'https://a.example/mcp'],
    ['https://a.example/', undefined, 'https://a.example/mcp'],
    ['https://a.example', '', 'https://a.example/mcp'],
    ['https://a.example', '/mcp', 'https://a.example/mcp'],
    ['https://a.example', 'mcp', 'https://a.example/mcp'],
    ['https://a.example//', '//mcp', 'https://a.example/mcp'],
    ['https://a.example/base/', '/x/mcp', 'https://a.example/base/x/mcp'],
    ['https://a.example', '/mcp/', 'https://a.example/mcp/'],
    ['https://a.example', '/', 'https://a.example/'],
    ['https://a.example', '/mcp?tenant=a', 'https://a.example/mcp?tenant=a'],
    ['https://a.example', '@evil.example/', 'https://a.example/@evil.example/'],
  ])('joins %s and %s', (base, endpoint, address) => {
    expect(mcpAddress(base, endpoint)).toBe(address);
  });
});

function hostileText(): fc.Arbitrary<string> {
  const piece = fc.constantFrom('@evil.example', '/', '\\', '..', '#', '?', ':', '//evil.example', '%2e%2e', '\n', 'x');
  return fc.oneof(
    fc.string(),
    fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join('')),
  );
}

function tryUrl(render: () => string): string | undefined {
  try {
    return render();
  } catch {
    return undefined;
  }
}
