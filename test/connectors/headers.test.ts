import { describe, expect, it } from 'vitest';
import { checkHeaders, effectiveHeaders, ignoredHeaders, renderHeaders } from '../../src/connectors/headers.ts';

type Texts = Record<string, string>;

function sent(headers: Texts, credential: Texts = {}, parameters: Texts = {}, side: 'http' | 'mcp' = 'http'): Texts {
  return renderHeaders(headers, { credential, parameters }, side);
}

function octets(value: string | undefined): string {
  return Buffer.from(value ?? '', 'latin1').toString('utf8');
}

describe('rendered headers', () => {
  it('carry the stored value octet for octet', () => {
    const k = "a$&b$$c$1$`d$'e\\f";
    expect(sent({ 'X-Key': 'pre-${credential.k}-post' }, { k })).toEqual({ 'X-Key': `pre-${k}-post` });
    expect(octets(sent({ 'X-Key': '${credential.k}' }, { k: 'p:ä€😀' })['X-Key'])).toBe('p:ä€😀');
  });

  it('accept both spellings of a credential', () => {
    expect(sent({ A: '$<credential.k>', B: '${credential.k}' }, { k: 'v' })).toEqual({ A: 'v', B: 'v' });
  });

  it('never expand an inserted value', () => {
    expect(sent({ A: '${credential.k}' }, { k: '${credential.l}', l: 'no' })).toEqual({ A: '${credential.l}' });
  });

  it.each<[string, string, Texts, string]>([
    ['user and password', 'Basic ${credential.u}:${credential.p}', { u: 'svc', p: 'p:ä€' }, 'Basic c3ZjOnA6w6Tigqw='],
    ['a value that is encoded', 'Basic ${credential.b}', { b: 'c3ZjOng=' }, 'Basic c3ZjOng='],
    ['a value that holds the pair', 'Basic ${credential.b}', { b: 'svc:x' }, 'Basic c3ZjOng='],
    ['another case of the scheme', 'basic  ${credential.u}:${credential.p}', { u: 'svc', p: 'x' }, 'basic c3ZjOng='],
    ['a password that ends in a space', 'Basic ${credential.u}:${credential.p}', { u: 'a', p: 'b ' }, 'Basic YTpiIA=='],
    ['another scheme', 'Bearer ${credential.u}:${credential.p}', { u: 'a', p: 'b' }, 'Bearer a:b'],
    ['no scheme', 'XBasic ${credential.u}:${credential.p}', { u: 'a', p: 'b' }, 'XBasic a:b'],
  ])('encode basic authentication with %s', (_, template, credential, value) => {
    expect(sent({ Authorization: template }, credential)).toEqual({ Authorization: value });
    expect(sent({ 'proxy-authorization': template }, credential)).toEqual({ 'proxy-authorization': value });
  });

  it('encode basic authentication in no other header', () => {
    expect(sent({ 'X-Authorization': 'Basic a:b', 'Authorization-X': 'Basic a:b' })).toEqual({
      'X-Authorization': 'Basic a:b',
      'Authorization-X': 'Basic a:b',
    });
  });

  it('take parameters, and defaults without one', () => {
    const headers = { A: '${parameters.p}', B: '${parameters.q:-d}' };
    expect(sent(headers, {}, { p: '1' })).toEqual({ A: '1', B: 'd' });
    expect(sent(headers, {}, { p: '1', q: '2' })).toEqual({ A: '1', B: '2' });
  });

  it.each<[string, Texts, Texts, string]>([
    [
      'a missing parameter',
      { A: 'x${parameters.p}' },
      {},
      "Header 'A' uses ${parameters.p}, which has no value. Give it in parameters.",
    ],
    ['an empty parameter', { A: '${parameters.p}' }, { p: '' }, "Header 'A' uses ${parameters.p}, which has no value."],
    [
      'a parameter with a line break',
      { A: '${parameters.p}' },
      { p: 'tok-9\r\nB: 1' },
      "Header 'A' cannot be sent: The value of parameter 'p' holds a line break",
    ],
    [
      'a missing credential',
      { A: '${credential.t}' },
      {},
      "Header 'A' uses ${credential.t}, but the credential 't' is not given.",
    ],
  ])('are refused with %s', (_, headers, parameters, message) => {
    expect(() => sent(headers, {}, parameters)).toThrow(message);
    expect(() => sent(headers, {}, parameters)).not.toThrow('tok-9');
  });
});

describe('one field for each name', () => {
  it.each<[string, Texts, [string, string][]]>([
    ['the last of several', { 'X-A': '1', 'x-a': '2' }, [['x-a', '2']]],
    [
      'the one with a credential, last',
      { Authorization: 'Bearer old', authorization: 'Bearer ${credential.k}' },
      [['authorization', 'Bearer ${credential.k}']],
    ],
    [
      'the one with a credential, first',
      { authorization: '$<credential.k>', Authorization: 'Bearer old' },
      [['authorization', '$<credential.k>']],
    ],
    ['the last with a credential', { A: '${credential.k}', a: '${credential.l}' }, [['a', '${credential.l}']]],
    [
      'different names',
      { A: '1', B: '2' },
      [
        ['A', '1'],
        ['B', '2'],
      ],
    ],
  ])('is %s', (_, headers, fields) => {
    expect(effectiveHeaders(headers, 'http')).toEqual(fields);
  });

  it.each(['Host', 'content-length', 'Transfer-Encoding', 'Connection', 'accept-encoding', 'Expect'])(
    'is never %s, which the transport owns',
    (name) => {
      expect(sent({ [name]: 'x', A: '1' })).toEqual({ A: '1' });
      expect(sent({ [name]: 'x', A: '1' }, {}, {}, 'mcp')).toEqual({ A: '1' });
      expect(ignoredHeaders({ [name]: 'x', A: '1' }, 'http')).toEqual([name]);
    },
  );

  it.each(['Accept', 'content-type', 'mcp-session-id', 'MCP-Protocol-Version', 'Mcp-Method', 'last-event-id'])(
    'is never %s towards an MCP server',
    (name) => {
      expect(sent({ [name]: 'x', A: '1' }, {}, {}, 'mcp')).toEqual({ A: '1' });
      expect(ignoredHeaders({ A: '1', [name]: 'x' }, 'mcp')).toEqual([name]);
      expect(sent({ [name]: 'x' })).toEqual({ [name]: 'x' });
      expect(ignoredHeaders({ [name]: 'x' }, 'http')).toEqual([]);
    },
  );
});

describe('header templates at create and update', () => {
  const SENSITIVE =
    'authorization proxy-authorization cookie x-api-key x-auth-token x-auth-header x-forwarded-for x-real-ip x-client-ip cf-connecting-ip true-client-ip x-originating-ip host x-forwarded-host x-forwarded-server forwarded';

  it.each(SENSITIVE.split(' '))('keep parameters out of %s', (name) => {
    const shown = name.toUpperCase();
    expect(() => checkHeaders({ [shown]: 'a ${parameters.p}' }, {}, 'http')).toThrow(
      `Header '${shown}' cannot use \${parameters.*} placeholders for security reasons. Use \${credential.*} instead.`,
    );
  });

  it('keep parameters out of every header of an MCP connector', () => {
    expect(() => checkHeaders({ 'X-Any': '${parameters.p:-d}' }, {}, 'mcp')).toThrow(
      "Header 'X-Any' cannot use ${parameters.*} placeholders in MCP connectors.",
    );
    expect(() => checkHeaders({ 'X-Any': '${parameters.p}' }, {}, 'http')).not.toThrow();
  });

  it.each<[string, Texts, Texts, string]>([
    [
      'a misspelt key',
      { 'X-Key': '${credential.api_kye}' },
      { api_key: 'v' },
      "Header 'X-Key' uses ${credential.api_kye}, but the credential 'api_kye' is not given. Give it a value in credential.",
    ],
    ['no credential', { Authorization: 'Bearer ${credential.t}' }, {}, "but the credential 't' is not given"],
    ['an empty value', { Authorization: 'Bearer ${credential.t}' }, { t: '' }, "but the credential 't' is empty"],
    [
      'the other spelling',
      { A: '$<credential.t>' },
      {},
      "Header 'A' uses $<credential.t>, but the credential 't' is not given",
    ],
    ['a key of the prototype', { A: '${credential.toString}' }, {}, "the credential 'toString' is not given"],
    [
      'a misspelt scope',
      { A: 'Bearer ${credentials.t}' },
      {},
      "Header 'A' holds '${credentials.t}', which is not a placeholder.",
    ],
    ['an empty key', { A: '${credential.}' }, {}, "holds '${credential.}', which is not a placeholder"],
    ['an unknown bracket', { A: '$<parameters.t>' }, {}, "holds '$<parameters.t>', which is not a placeholder"],
    ['a space in its name', { 'X Key': 'v' }, {}, "Header 'X Key' is not a valid HTTP header name."],
    ['a line break in its name', { 'X\r\nY': 'v' }, {}, "Header 'X\\r\\nY' is not a valid HTTP header name."],
    ['no name', { '': 'v' }, {}, "Header '' is not a valid HTTP header name."],
    [
      'a line break in its text',
      { A: 'x\ny' },
      {},
      "Header 'A' cannot be sent: Its text holds a line break or another control character. Remove it.",
    ],
    [
      'a line break in its default',
      { A: '${parameters.p:-\n}' },
      {},
      "Header 'A' cannot be sent: Its text holds a line break",
    ],
  ])('refuse %s', (_, headers, credential, message) => {
    expect(() => checkHeaders(headers, credential, 'http')).toThrow(message);
  });

  it.each(['tok-9\r\nX-Admin: 1', 'tok-9\n', 'tok-9\r', '\0tok-9', 'tok-9\x1b', 'tok-9\x7f', 'tok\x08-9'])(
    'refuse a credential that no header can hold (%j) without showing it',
    (t) => {
      const check = () => checkHeaders({ Authorization: 'Bearer ${credential.t}' }, { t }, 'mcp');
      expect(check).toThrow("Header 'Authorization' cannot be sent: The value of credential 't' holds a line break");
      expect(check).not.toThrow(/tok|Admin/);
    },
  );

  it('accept a tab, any other text, and credentials that no header uses', () => {
    expect(() =>
      checkHeaders({ A: 'a\tb ${credential.k}', B: 'ü $5 {x}' }, { k: '\tä€', other: 'x\n' }, 'mcp'),
    ).not.toThrow();
  });
});
