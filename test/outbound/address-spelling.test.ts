import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePatterns, judgeAddress, judgeUrl, type Refusal } from '../../src/outbound/address-guard.ts';
import { addressRange } from '../../src/outbound/address-range.ts';
import type { EndpointPolicy } from '../../src/outbound/types.ts';

interface Given {
  trusted?: string[];
  priv?: string[];
  restricted?: string[];
  privateIp?: boolean;
  open?: boolean;
}
function policy({ trusted, priv = [], restricted = [], privateIp = false, open = false }: Given = {}): EndpointPolicy {
  return {
    trusted: trusted && compilePatterns(trusted),
    trustedPrivate: compilePatterns(priv),
    privateIpEnabled: privateIp,
    loopbackAllowed: open,
    restrictedIps: compilePatterns(restricted),
  };
}
const CLOSED = policy();
const OPEN = policy({ open: true });
const EVERYTHING = policy({ trusted: ['.*'], priv: ['.*'], privateIp: true, open: true });
const POLICIES = [
  CLOSED,
  OPEN,
  EVERYTHING,
  policy({ trusted: [] }),
  policy({ trusted: ['.*'] }),
  policy({ privateIp: true }),
  policy({ priv: ['.*'] }),
];

function refusal(url: string, given: EndpointPolicy, address?: string): Refusal {
  const verdict = address === undefined ? judgeUrl(url, given) : judgeAddress(address, url, given);
  if (verdict.allowed) throw new Error(`${url} is allowed`);
  return verdict;
}
const kind = (url: string, given: EndpointPolicy, address?: string) => refusal(url, given, address).kind;
const ok = (url: string, given: EndpointPolicy, address?: string) =>
  (address === undefined ? judgeUrl(url, given) : judgeAddress(address, url, given)).allowed;

describe('spelling', () => {
  const PLAIN =
    'of the address is not in its plain spelling: write names in ASCII (xn--…) without a closing dot, IPv4 as four decimal numbers, IPv6 in its shortest form.';

  it.each([
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0X7F.0.0.1',
    '017700000001',
    '0177.0.0.1',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
    '127.0.0.01',
    '127.0.0.0x1',
    '%3127.0.0.1',
    '127。0。0。1',
    '１２７.0.0.1',
    '①27.0.0.1',
    '[0:0:0:0:0:0:0:1]',
    '[::0001]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::FFFF:8.8.8.8]',
    '[::127.0.0.1]',
    '8.8.2056',
    '0x08080808',
  ])('the numeric host %s is refused by its text', (host) => {
    for (const given of POLICIES) {
      for (const scheme of ['http', 'https']) {
        expect(judgeUrl(`${scheme}://${host}:3000/mcp`, given)).toEqual({
          allowed: false,
          kind: 'malformed',
          reason: `The numeric host ${PLAIN}`,
        });
      }
    }
  });

  it.each([
    'localhost.',
    'metadata.google.internal.',
    'example.com.',
    'b%C3%BCcher.example',
    'bücher.example',
    'ｌocalhost',
    'loc%61lhost',
    '${parameters.host}',
    'a,b',
  ])('the host %s is refused by its text', (host) => {
    for (const given of POLICIES) {
      expect(judgeUrl(`https://${host}/`, given)).toEqual({
        allowed: false,
        kind: 'malformed',
        reason: `The host ${PLAIN}`,
      });
    }
  });

  it('upper case is no other spelling', () => {
    expect(ok('HTTPS://API.Example.COM/', CLOSED)).toBe(true);
    expect(ok('https://[2606:4700::ABCD]/', CLOSED)).toBe(true);
    expect(kind('http://LOCALHOST/', OPEN)).toBe('untrusted');
  });

  it.each([
    'https://user@api.example.com/',
    'https://user:CANARY@api.example.com/',
    'https://:CANARY@api.example.com/',
    'http://user:CANARY@127.0.0.1/',
    'https://api.example.com:443@evil.example/',
    'https://@api.example.com/',
  ])('%s is refused for its user name, which is not repeated', (url) => {
    expect(judgeUrl(url, EVERYTHING)).toEqual({
      allowed: false,
      kind: 'malformed',
      reason: 'The address holds a user name or password: put them into credential and a header instead.',
    });
  });

  it.each([
    ['file:///etc/passwd', 'file'],
    ['gopher://x', 'gopher'],
    ['ftp://x/', 'ftp'],
    ['javascript:alert(1)', 'javascript'],
    ['data:text/plain,x', 'data'],
    ['WS://x/', 'ws'],
    ['httpsx://x', 'httpsx'],
    ['unix+http-a.b://x', 'unix+http-a.b'],
  ])('%s is refused for its scheme', (url, scheme) => {
    expect(judgeUrl(url, EVERYTHING)).toEqual({
      allowed: false,
      kind: 'malformed',
      reason: `Only http and https addresses can be used, not ${scheme}.`,
    });
  });

  it.each([
    '',
    'api.example.com',
    '//api.example.com/',
    '/mcp',
    'https:api.example.com',
    'https:/api.example.com',
    'https://',
    'https:///x',
    'https:\\\\api.example.com/',
    'https://api.example.com\\@evil.example/',
    'https://api.example.com/a b',
    'https://api.exam\tple.com/',
    'https://api.example.com/\r\nX: y',
    ' https://api.example.com/',
    'https://api.example.com/\u0000',
    'https://api.example.com/\u007f',
    'https://api.example.com:99999/',
    'https://api.example.com:port/',
    'https://256.1.1.1/',
    'https://[::1/',
    'https://[fe80::1%25eth0]/',
    '1https://x/',
  ])('%j is no address, and is not repeated', (url) => {
    expect(judgeUrl(url, EVERYTHING)).toEqual({
      allowed: false,
      kind: 'malformed',
      reason: 'The address is not a valid URL: write http(s)://host[:port]/path, percent-encoded where needed.',
    });
  });

  it('a resolver answer that is no address is refused', () => {
    expect(refusal('https://a.example/', EVERYTHING, 'not-an-ip')).toEqual({
      allowed: false,
      kind: 'malformed',
      reason: 'a.example resolves to something that is not an address.',
    });
  });

  it('an address that is refused as written is refused when resolved', () => {
    expect(kind('http://a.example/', CLOSED, '8.8.8.8')).toBe('untrusted');
    expect(kind('https://127.1/', EVERYTHING, '127.0.0.1')).toBe('malformed');
  });
});

describe('address ranges', () => {
  it.each([
    ['9.255.255.255', 'public'],
    ['10.0.0.0', 'private'],
    ['10.255.255.255', 'private'],
    ['11.0.0.0', 'public'],
    ['100.63.255.255', 'public'],
    ['100.64.0.0', 'private'],
    ['100.127.255.255', 'private'],
    ['100.128.0.0', 'public'],
    ['100.100.100.199', 'private'],
    ['126.255.255.255', 'public'],
    ['127.0.0.0', 'loopback'],
    ['127.255.255.255', 'loopback'],
    ['128.0.0.0', 'public'],
    ['169.253.255.255', 'public'],
    ['169.254.0.0', 'forbidden'],
    ['169.255.0.0', 'public'],
    ['172.15.255.255', 'public'],
    ['172.16.0.0', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.0', 'public'],
    ['192.0.2.1', 'private'],
    ['192.167.255.255', 'public'],
    ['192.168.0.0', 'private'],
    ['192.169.0.0', 'public'],
    ['198.17.255.255', 'public'],
    ['198.18.0.0', 'private'],
    ['198.19.255.255', 'private'],
    ['198.20.0.0', 'public'],
    ['223.255.255.255', 'public'],
    ['224.0.0.0', 'forbidden'],
    ['240.0.0.1', 'private'],
    ['168.63.129.15', 'public'],
    ['168.63.129.17', 'public'],
    ['::1', 'loopback'],
    ['::2', 'forbidden'],
    ['::8.8.8.8', 'private'],
    ['::10.0.0.1', 'private'],
    ['::ffff:8.8.8.8', 'private'],
    ['::ffff:127.0.0.1', 'private'],
    ['64:ff9b::808:808', 'private'],
    ['64:ff9b:1::a9fe:a9fe', 'forbidden'],
    ['2002:808:808::1', 'private'],
    ['2001::1', 'private'],
    ['2001:db8::1', 'private'],
    ['fc00::1', 'private'],
    ['fdff::1', 'private'],
    ['fec0::1', 'private'],
    ['fd00:ec1::254', 'private'],
    ['fd00:ec3::254', 'private'],
    ['1fff::1', 'private'],
    ['2000::1', 'public'],
    ['3ffe::1', 'public'],
    ['4000::1', 'private'],
    ['fe80::1', 'forbidden'],
    ['nonsense', undefined],
    ['', undefined],
  ])('%s is %s', (address, range) => {
    expect(addressRange(address)).toBe(range);
  });

  it('puts no address of a non-public IPv4 block outside', () => {
    const octet = fc.integer({ min: 0, max: 255 });
    const second = fc.integer({ min: 16, max: 31 });
    const blocks = fc.oneof(
      fc.tuple(fc.constant(10), octet, octet, octet),
      fc.tuple(fc.constant(172), second, octet, octet),
      fc.tuple(fc.constant(192), fc.constant(168), octet, octet),
      fc.tuple(fc.constant(127), octet, octet, octet),
      fc.tuple(fc.constant(169), fc.constant(254), octet, octet),
      fc.tuple(fc.integer({ min: 224, max: 255 }), octet, octet, octet),
      fc.tuple(fc.constant(0), octet, octet, octet),
    );
    fc.assert(
      fc.property(blocks, (octets) => {
        const address = octets.join('.');
        expect(addressRange(address)).not.toBe('public');
        for (const prefix of ['::ffff:', '::', '64:ff9b::']) expect(addressRange(prefix + address)).not.toBe('public');
        expect(ok(`https://${address}/`, CLOSED)).toBe(false);
        expect(ok('https://name.example/', CLOSED, address)).toBe(false);
      }),
    );
  });

  it('lets no spelling of loopback through that is not one of the three', () => {
    const spellings = fc
      .tuple(
        fc.constantFrom('127', '0177', '0x7f', '0x7F'),
        fc.constantFrom('0', '00', '0x0'),
        fc.constantFrom('1', '01', '0x1'),
      )
      .map(([first, middle, last]) => [first, middle, middle, last].join('.'));
    const numbers = fc.integer({ min: 0, max: 0xffffff }).map((low) => 127 * 2 ** 24 + low);
    const forms = numbers.chain((value) =>
      fc.constantFrom(String(value), `0x${value.toString(16)}`, `0${value.toString(8)}`),
    );
    fc.assert(
      fc.property(fc.oneof(spellings, forms), (host) => {
        fc.pre(host !== '127.0.0.1');
        expect(kind(`http://${host}/`, OPEN)).toBe('malformed');
      }),
    );
  });

  it('judges any text without throwing, and allows only http and https', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.string().map((text) => `https://${text}`),
        ),
        (text) => {
          for (const given of POLICIES) {
            if (judgeUrl(text, given).allowed) expect(text).toMatch(/^https?:\/\//i);
          }
        },
      ),
    );
  });
});
