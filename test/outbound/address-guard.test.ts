import { describe, expect, it } from 'vitest';
import { compilePatterns, inspectUrl, judgeAddress, judgeUrl, type Refusal } from '../../src/outbound/address-guard.ts';
import type { EndpointPolicy } from '../../src/outbound/types.ts';

const TRUSTED = 'plugins.ml_commons.trusted_connector_endpoints_regex';
const PRIVATE = 'plugins.ml_commons.trusted_connector_private_endpoints_regex';
const RESTRICTED = 'plugins.ml_commons.connector.restricted_ip_patterns';

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

describe('by default', () => {
  it('any public https address is allowed, by name and as written', () => {
    for (const url of [
      'https://api.example.com',
      'https://api.example.com:8443/a?b=c#d',
      'https://8.8.8.8/',
      'https://[2606:4700::1111]/x',
    ]) {
      expect(judgeUrl(url, CLOSED)).toEqual({ allowed: true });
    }
    expect(judgeAddress('93.184.216.34', 'https://api.example.com/', CLOSED)).toEqual({ allowed: true });
    expect(judgeAddress('2606:4700::1111', 'https://api.example.com/', CLOSED)).toEqual({ allowed: true });
  });

  it('http is not, and the refusal names the setting and value that would allow it', () => {
    expect(judgeUrl('http://api.example.com:8080/secret/path?key=CANARY', CLOSED)).toEqual({
      allowed: false,
      kind: 'untrusted',
      setting: PRIVATE,
      reason: `http://api.example.com:8080 is not https. To allow it, add "http://api\\\\.example\\\\.com:8080([/?].*)?" to the list ${PRIVATE} (PUT /_cluster/settings), or http://api\\.example\\.com:8080([/?].*)? to TENON_TRUSTED_PRIVATE_ENDPOINTS.`,
    });
  });

  it.each(['127.0.0.1', '10.0.0.5', '[::1]', '[fd12::1]', '100.64.0.1', '198.18.0.1', 'localhost'])(
    'the private host %s is not, over http or https',
    (host) => {
      for (const scheme of ['http', 'https']) {
        const { kind, setting, reason } = refusal(`${scheme}://${host}/mcp`, CLOSED);
        expect([kind, setting]).toEqual(['private', PRIVATE]);
        const shown = scheme === 'https' && host === 'localhost' ? 'localhost (127.0.0.1)' : host;
        expect(reason).toContain(`Remote inference host name has private ip address: ${shown}. To allow it, add "`);
      }
    },
  );

  it('a name that resolves to a private address is not, and the address is named', () => {
    const { kind, setting, reason } = refusal('https://mcp.internal/x', CLOSED, '10.1.2.3');
    expect([kind, setting]).toEqual(['private', PRIVATE]);
    expect(reason).toBe(
      `Remote inference host name has private ip address: mcp.internal (10.1.2.3). To allow it, add "https://mcp\\\\.internal([/?].*)?" to the list ${PRIVATE} (PUT /_cluster/settings), or https://mcp\\.internal([/?].*)? to TENON_TRUSTED_PRIVATE_ENDPOINTS.`,
    );
    expect(kind).toBe('private');
  });

  it('what it proposes does allow the address', () => {
    for (const url of [
      'http://127.0.0.1:3000/mcp',
      'http://[::1]:3000',
      'https://10.0.0.5/a?b',
      'http://api.example.com?x=1',
      'http://a-b.example/c',
    ]) {
      const proposed = /or (\S+) to TENON_TRUSTED_PRIVATE_ENDPOINTS/.exec(refusal(url, CLOSED).reason)?.[1] ?? '';
      expect(ok(url, policy({ priv: [proposed] }))).toBe(true);
      expect(ok(url.replace('://', '://evil.'), policy({ priv: [proposed], trusted: [] }))).toBe(false);
    }
    const trusted = /or (\S+) to TENON_TRUSTED_ENDPOINTS/.exec(
      refusal('https://api.example.com/v1', policy({ trusted: ['x'] })).reason,
    )?.[1];
    expect(ok('https://api.example.com/v1', policy({ trusted: [trusted ?? ''] }))).toBe(true);
  });
});

describe('a trusted list', () => {
  const list = policy({ trusted: ['https://api\\.example\\.com/.*', '^http://plain\\.example/v1$'] });

  it('allows exactly what a pattern matches from first to last character', () => {
    expect(ok('https://api.example.com/v1', list)).toBe(true);
    expect(ok('http://plain.example/v1', list)).toBe(true);
    for (const url of [
      'https://api.example.com',
      'http://api.example.com/v1',
      'https://api.example.com.evil.example/',
      'https://evil.example/?https://api.example.com/v1',
      'https://apiXexample.com/v1',
      'http://plain.example/v1/more',
      'http://plain.example/v1?x',
      'https://other.example/',
    ]) {
      expect(kind(url, list)).toBe('untrusted');
    }
  });

  it('says what to add when it does not name a public address', () => {
    expect(refusal('https://other.example/v1?key=CANARY', list)).toEqual({
      allowed: false,
      kind: 'untrusted',
      setting: TRUSTED,
      reason: `https://other.example is not named by ${TRUSTED}. To allow it, add "https://other\\\\.example([/?].*)?" to the list ${TRUSTED} (PUT /_cluster/settings), or https://other\\.example([/?].*)? to TENON_TRUSTED_ENDPOINTS.`,
    });
    expect(refusal('https://8.8.8.8/', list).setting).toBe(TRUSTED);
    expect(refusal('http://localhost/', list).setting).toBe(TRUSTED);
    expect(refusal('https://10.0.0.1/', list).setting).toBe(PRIVATE);
  });

  it('that is empty refuses with the documented text', () => {
    expect(judgeUrl('https://api.example.com/', policy({ trusted: [] }))).toEqual({
      allowed: false,
      kind: 'empty_list',
      reason: `Trusted connector endpoints regex is not configured. Please set ${TRUSTED}.`,
      setting: TRUSTED,
    });
    expect(kind('http://127.0.0.1/', policy({ trusted: [], open: true }))).toBe('empty_list');
    expect(kind('https://10.0.0.1/', policy({ trusted: [], privateIp: true }))).toBe('empty_list');
    expect(ok('http://10.0.0.1/', policy({ trusted: [], priv: ['http://10\\..*'] }))).toBe(true);
  });

  it('does not open private addresses by itself, except loopback written as such', () => {
    const all = policy({ trusted: ['.*'] });
    for (const host of ['127.0.0.1:3000', 'localhost', '[::1]:80']) expect(ok(`http://${host}/`, all)).toBe(true);
    expect(kind('https://10.0.0.1/', all)).toBe('private');
    expect(kind('http://127.0.0.2/', all)).toBe('private');
    expect(kind('https://evil.example/', all, '127.0.0.1')).toBe('private');
    expect(kind('https://evil.example/', all, '10.0.0.1')).toBe('private');
    expect(ok('http://evil.example/', all, '8.8.8.8')).toBe(true);
    expect(ok('http://localhost/', all, '::1')).toBe(true);
    expect(kind('http://localhost/', all, '10.0.0.1')).toBe('private');
  });

  it('holds in open mode too', () => {
    expect(kind('http://127.0.0.1:3000/', policy({ trusted: ['https://a/'], open: true }))).toBe('untrusted');
  });

  it('is matched against what dot segments resolve to', () => {
    const narrow = policy({ trusted: ['https://api\\.example\\.com/public/.*'] });
    expect(ok('https://api.example.com/public/a', narrow)).toBe(true);
    expect(ok('https://api.example.com/public/a..b/.c', narrow)).toBe(true);
    for (const path of ['../admin', '%2e%2e/admin', '.%2E/admin', 'x/../../admin', '..', '..?x', '..#x']) {
      expect(kind(`https://api.example.com/public/${path}`, narrow)).toBe('untrusted');
    }
    expect(ok('https://api.example.com/public/./a', narrow)).toBe(true);
  });

  it('is not satisfied by a pattern that finds only a part', () => {
    const partial = policy({ trusted: ['https://a\\.example', 'example/$'] });
    expect(kind('https://a.example/', partial)).toBe('untrusted');
    expect(ok('https://a.example', partial)).toBe(true);
  });
});

describe('the private list', () => {
  const listed = policy({ priv: ['http://mcp:3001/.*', 'https?://10\\.0\\.0\\.5(:\\d+)?/.*'] });

  it('allows http and private or loopback addresses it names, with no entry elsewhere', () => {
    expect(ok('http://mcp:3001/mcp', listed)).toBe(true);
    for (const address of ['172.18.0.2', '127.0.0.1', '8.8.8.8', 'fd00::2', '::1']) {
      expect(ok('http://mcp:3001/mcp', listed, address)).toBe(true);
    }
    expect(ok('http://10.0.0.5:8080/x', listed)).toBe(true);
    expect(ok('http://10.0.0.5/x', policy({ trusted: ['https://a/'], priv: ['http://10\\.0\\.0\\.5/x'] }))).toBe(true);
  });

  it('allows nothing beside', () => {
    expect(kind('http://mcp:3002/mcp', listed)).toBe('untrusted');
    expect(kind('https://10.0.0.6/x', listed)).toBe('private');
    expect(kind('https://other.example/', listed, '172.18.0.2')).toBe('private');
  });
});

describe('private_ip_enabled', () => {
  const enabled = policy({ privateIp: true });

  it('allows private addresses over https', () => {
    for (const url of [
      'https://10.0.0.5/',
      'https://127.0.0.1/',
      'https://localhost/',
      'https://[fd00::1]/',
      'https://100.64.1.1/',
    ]) {
      expect(ok(url, enabled)).toBe(true);
    }
    expect(ok('https://mcp.internal/', enabled, '192.168.1.1')).toBe(true);
    expect(ok('https://mcp.internal/', enabled, '8.8.8.8')).toBe(true);
  });

  it('allows http only where a list names it', () => {
    expect(kind('http://10.0.0.5/', enabled)).toBe('private');
    expect(kind('http://mcp.internal/', enabled)).toBe('untrusted');
    const named = policy({ privateIp: true, trusted: ['http://mcp\\.internal/.*'] });
    expect(ok('http://mcp.internal/', named, '192.168.1.1')).toBe(true);
    expect(ok('http://mcp.internal/', named, '127.0.0.1')).toBe(true);
    expect(kind('http://10.0.0.5/', named)).toBe('untrusted');
  });
});

describe('open mode', () => {
  it('allows loopback by its three plain names, http and https', () => {
    for (const host of ['localhost', '127.0.0.1', '[::1]', 'localhost:3000', '127.0.0.1:1', '[::1]:65535']) {
      expect(ok(`http://${host}/mcp`, OPEN)).toBe(true);
      expect(ok(`https://${host}`, OPEN)).toBe(true);
    }
    expect(ok('http://localhost/', OPEN, '127.0.0.1')).toBe(true);
    expect(ok('http://localhost/', OPEN, '::1')).toBe(true);
  });

  it('allows no other private host, nor http elsewhere', () => {
    expect(kind('http://127.0.0.2/', OPEN)).toBe('private');
    expect(kind('https://127.0.0.2/', OPEN)).toBe('private');
    expect(kind('http://10.0.0.1/', OPEN)).toBe('private');
    expect(kind('http://api.example.com/', OPEN)).toBe('untrusted');
    expect(kind('https://app.localhost/', OPEN, '127.0.0.1')).toBe('private');
    expect(kind('https://evil.example/', OPEN, '127.0.0.1')).toBe('private');
    expect(kind('http://localhost:3000/', CLOSED)).toBe('private');
  });

  it('does not follow localhost off the machine', () => {
    expect(kind('http://localhost/', OPEN, '10.0.0.1')).toBe('private');
    expect(refusal('http://localhost/', OPEN, '8.8.8.8')).toMatchObject({
      kind: 'untrusted',
      setting: PRIVATE,
      reason: expect.stringMatching(/^localhost \(8\.8\.8\.8\) is not a loopback address\. To allow it, add /),
    });
  });
});

describe('never, whatever is set', () => {
  it.each([
    '169.254.169.254',
    '169.254.0.0',
    '169.254.255.255',
    '[fe80::1]',
    '[febf:ffff::1]',
    '[fd00:ec2::254]',
    '[fd20:ce::254]',
    '[fd00:c1::a9fe:a9fe]',
    '100.100.100.200',
    '192.0.0.192',
    '168.63.129.16',
    '0.0.0.0',
    '0.1.2.3',
    '[::]',
    '224.0.0.1',
    '239.255.255.255',
    '[ff02::1]',
    '255.255.255.255',
    '[100::1]',
    '[64:ff9b::a9fe:a9fe]',
    '[2002:a9fe:a9fe::1]',
    '[2001:0:1:2:3:4:5601:5601]',
    '[::a9fe:a9fe]',
    '[::ffff:0:a9fe:a9fe]',
  ])('%s', (host) => {
    const bare = host.replace(/[[\]]/g, '');
    for (const given of POLICIES) {
      const { kind, reason, setting } = refusal(`https://${host}/latest`, given);
      expect([kind, setting]).toEqual(['forbidden', undefined]);
      expect(reason).toBe(`${host} is a link-local, metadata, multicast or unspecified address; no setting allows it.`);
    }
    expect(refusal('https://name.example/', EVERYTHING, bare)).toEqual({
      allowed: false,
      kind: 'forbidden',
      reason: `name.example (${bare}) is a link-local, metadata, multicast or unspecified address; no setting allows it.`,
    });
  });

  it('not even where the address is mapped into IPv6 by the resolver', () => {
    expect(kind('https://name.example/', EVERYTHING, '::ffff:169.254.169.254')).toBe('forbidden');
  });

  it.each([
    'metadata.google.internal',
    'METADATA.google.internal',
    'x.metadata.google.internal',
    'metadata.goog',
    'metadata.azure.internal',
    'metadata.tencentyun.com',
    'metadata.platformequinix.com',
    'instance-data',
    'instance-data.ec2.internal',
  ])('the metadata name %s', (host) => {
    for (const given of POLICIES) {
      expect(refusal(`http://${host}/`, given)).toEqual({
        allowed: false,
        kind: 'forbidden',
        reason: `${host.toLowerCase()} is a cloud metadata service; no setting allows it.`,
      });
    }
    expect(ok('https://mymetadata.goog/', CLOSED)).toBe(true);
  });

  it('addresses that restricted_ip_patterns names', () => {
    const restricted = policy({
      ...{ trusted: ['.*'], priv: ['.*'], privateIp: true },
      restricted: ['10\\.0\\..*', '8\\.8\\.8\\.8'],
    });
    const expected = (shown: string) => ({
      allowed: false,
      kind: 'forbidden',
      reason: `${shown} is refused by ${RESTRICTED}.`,
      setting: RESTRICTED,
    });
    expect(judgeUrl('https://10.0.0.1/', restricted)).toEqual(expected('10.0.0.1'));
    expect(judgeAddress('8.8.8.8', 'https://dns.example/', restricted)).toEqual(expected('dns.example (8.8.8.8)'));
    expect(ok('https://10.1.0.1/', restricted)).toBe(true);
    expect(ok('https://dns.example/', restricted, '8.8.8.80')).toBe(true);
  });
});

describe('reach', () => {
  it('says which resolved addresses a request may use', () => {
    const reach = (url: string, given: EndpointPolicy) => {
      const inspection = inspectUrl(url, given);
      return inspection.allowed ? [inspection.reach, inspection.url.href] : inspection.kind;
    };
    expect(reach('https://a.example', CLOSED)).toEqual(['public', 'https://a.example/']);
    expect(reach('http://localhost', OPEN)).toEqual(['loopback', 'http://localhost/']);
    expect(reach('http://localhost', policy({ trusted: ['.*'] }))).toEqual(['public+loopback', 'http://localhost/']);
    expect(reach('https://a.example', policy({ trusted: ['.*'] }))).toEqual(['public', 'https://a.example/']);
    expect(reach('https://a.example', policy({ privateIp: true }))).toEqual(['public+private', 'https://a.example/']);
    expect(reach('https://a.example', policy({ privateIp: true, trusted: ['.*'] }))).toEqual([
      'public+private',
      'https://a.example/',
    ]);
    expect(reach('http://a.example', policy({ priv: ['.*'] }))).toEqual(['public+private', 'http://a.example/']);
  });
});
