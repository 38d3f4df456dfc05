import { describe, expect, it } from 'vitest';
import { type Declaration, declarationOf } from '../../src/connectors/declared/declared-entry.ts';
import type { JsonObject, JsonValue } from '../../src/json.ts';

const VARIABLES: Readonly<Record<string, string>> = {
  PATH: '/usr/bin',
  HOME: '/home/ann',
  TOKEN: 'tok-4711-secret',
  USER_NAME: 'jörg',
  PASSWORD: 'pa:ss wort',
  NESTED: '{env:TOKEN}',
  TENON_MASTER_KEY: 'the master key',
  DATABASE_PASSWORD: 'not for children',
};

function declared(entry: JsonValue, name = 'srv'): Declaration {
  return declarationOf({ name, entry, path: '/etc/site/tenon.json', time: 1000 }, (key) => VARIABLES[key]);
}
const problem = (entry: JsonValue, name?: string) => declared(entry, name).connector.declared?.problem;
const headersOf = (headers: JsonObject) => declared({ url: 'https://h/mcp', headers }).endpoint?.headers;

describe('a local server', () => {
  it('is a program with its arguments, each as it was written', () => {
    const command = ['node', '/opt/My Server (test)/a b.js', '--x=$HOME', 'a;b', '*', '', 'ü'];
    const { connector, local } = declared({ command });
    expect(connector).toMatchObject({ id: 'srv', name: 'srv', protocol: 'mcp_stdio', revision: 1 });
    expect(connector.declared).toMatchObject({ enabled: true, agents: [], warnings: [] });
    expect([local?.command, ...(local?.args ?? [])]).toEqual(command);
  });

  it('is read as other hosts write it', () => {
    const { local, warnings } = declared({ type: 'stdio', command: 'npx', args: ['-y', 'x@1'], env: { A: '1', B: 2 } });
    expect([local?.command, local?.args, local?.environment.A, local?.environment.B]).toEqual([
      'npx',
      ['-y', 'x@1'],
      '1',
      '2',
    ]);
    expect(warnings).toEqual([]);
  });

  it('finds its own environment and what programs need, nothing of the platform', () => {
    const { local } = declared({
      command: ['x'],
      environment: { API: '{env:TOKEN}', MIXED: 'a-${env:TOKEN}-b', PATH: '/own' },
    });
    expect(local?.environment).toEqual({
      HOME: '/home/ann',
      PATH: '/own',
      API: 'tok-4711-secret',
      MIXED: 'a-tok-4711-secret-b',
    });
  });

  it.each([
    [undefined, '/etc/site'],
    ['.', '/etc/site'],
    ['tools', '/etc/site/tools'],
    ['/srv/x', '/srv/x'],
  ])('runs in the folder of the file unless cwd says otherwise: %s', (cwd, expected) => {
    expect(declared({ command: ['x'], ...(cwd === undefined ? {} : { cwd }) }).local?.cwd).toBe(expected);
  });

  it('is shown with names of its environment and without a value', () => {
    const { document } = declared({
      command: ['x', '-v'],
      environment: { API: '{env:TOKEN}', PLAIN: 'literal-secret' },
    });
    expect(document).toMatchObject({ command: ['x', '-v'], cwd: '/etc/site', environment: ['API', 'PLAIN'] });
    expect(JSON.stringify(document)).not.toMatch(/tok-4711|literal-secret/);
  });

  it('that may be another program tomorrow is warned of, and works', () => {
    const { warnings, local } = declared({ command: ['npx', '-y', 'some-server@latest'] });
    expect(warnings).toEqual([expect.stringMatching(/^some-server@latest is whatever its publisher makes of it/)]);
    expect(local).toBeDefined();
  });

  it.each<[JsonObject, string]>([
    [{ command: [] }, 'command must be an array that begins with a program'],
    [{ command: '' }, 'command must be an array that begins with a program'],
    [{ command: [' '] }, 'command must be an array that begins with a program'],
    [{ command: { a: 1 } }, 'command must be an array that begins with a program'],
    [{ command: ['x', 1] }, 'command must hold texts only'],
    [{ command: 'x', args: ['a', null] }, 'args must hold texts only'],
    [{ command: 'x', args: 'a' }, 'args must be an array of texts'],
    [{ command: 'npx -y foo' }, 'command is one text with blanks'],
    [{ command: ['x'], args: ['a'] }, 'args goes with a command that is a text'],
    [{ command: ['x\0y'] }, 'command must not hold a NUL character'],
    [{ command: ['x', '--key={env:TOKEN}'] }, 'command uses {env:…}'],
    [{ command: ['x'], cwd: 7 }, 'cwd must be the path of a folder'],
    [{ command: ['x'], environment: { A: '1' }, env: { B: '2' } }, 'environment and env are the same thing'],
    [{ command: ['x'], environment: ['A=1'] }, 'environment must be an object of texts'],
    [{ command: ['x'], environment: { A: null } }, 'environment: the value of "A" must be a text'],
    [{ command: ['x'], env: { A: {} } }, 'env: the value of "A" must be a text'],
    [{ command: ['x'], environment: { 'A=B': '1' } }, 'environment must hold names without ='],
    [{ command: ['x'], environment: { A: '1\0' } }, 'environment must hold names without ='],
  ])('with a mistake is a server with a problem: %j', (entry, message) => {
    const { connector, local } = declared(entry);
    expect(connector.protocol).toBe('mcp_stdio');
    expect(connector.declared?.problem).toMatchObject({
      code: 'invalid_config',
      remedy: expect.stringMatching(/^Correct/),
    });
    expect(connector.declared?.problem?.message).toContain(`Server "srv" of /etc/site/tenon.json: ${message}`);
    expect(local).toBeUndefined();
  });
});

describe('a remote server', () => {
  it.each([
    'https://h.example/mcp',
    'https://h.example/mcp/',
    'http://10.0.0.7:8080/x?tenant=a',
    'http://localhost:3000',
  ])('has its whole address, nothing is appended: %s', (url) => {
    const { connector, endpoint } = declared({ url });
    expect(connector).toMatchObject({ protocol: 'mcp_streamable_http', declared: { enabled: true } });
    expect(connector.declared?.problem).toBeUndefined();
    expect(endpoint?.url).toBe(url);
  });

  it.each(['remote', 'http', 'streamable-http', 'streamable_http', 'streamableHttp', 'HTTP'])(
    'may be called %s',
    (type) => {
      expect(declared({ type, url: 'https://h/mcp' }).endpoint).toBeDefined();
    },
  );

  it('sends variables of the environment in its headers, in one pass', () => {
    expect(headersOf({ A: 'Bearer {env:TOKEN}', B: '${env:TOKEN}', C: '{env:NESTED}', D: 7 })).toEqual({
      A: 'Bearer tok-4711-secret',
      B: 'tok-4711-secret',
      C: '{env:TOKEN}',
      D: '7',
    });
  });

  it('knows the header rules of connectors', () => {
    const octets = (text: string) => Buffer.from(text, 'utf8').toString('latin1');
    const basic = Buffer.from('jörg:pa:ss wort').toString('base64');
    expect(headersOf({ Authorization: 'Basic {env:USER_NAME}:{env:PASSWORD}' })).toEqual({
      Authorization: `Basic ${basic}`,
    });
    expect(headersOf({ 'X-Name': 'ü' })).toEqual({ 'X-Name': octets('ü') });
  });

  it('does not send what the transport sets, and says so', () => {
    const { endpoint, warnings } = declared({
      url: 'https://h/mcp',
      headers: { Host: 'x', 'Mcp-Session-Id': 'y', A: 'z' },
    });
    expect(endpoint?.headers).toEqual({ A: 'z' });
    expect(warnings).toEqual(['headers that the transport sets itself are not sent: Host, Mcp-Session-Id']);
  });

  it('sends placeholders of stored connectors and of other hosts as they are, and warns', () => {
    const { endpoint, warnings } = declared({
      url: 'https://h/mcp',
      headers: { A: '${credential.k}', B: 'Bearer ${TOKEN}' },
    });
    expect(endpoint?.headers).toEqual({ A: '${credential.k}', B: 'Bearer ${TOKEN}' });
    expect(warnings).toEqual([
      'header A holds ${credential.k}, which is sent as it is; write {env:NAME}',
      'header B holds ${TOKEN}, which is sent as it is; write {env:NAME}',
    ]);
  });

  it('is shown with names of variables, and no other value', () => {
    const headers = {
      A: 'Bearer {env:TOKEN}',
      B: '{env:TOKEN}',
      C: 'Basic {env:USER_NAME}:{env:PASSWORD}',
      D: 'literal-secret',
      E: 'pre-{env:TOKEN}',
    };
    const { document } = declared({ url: 'https://h/mcp?api_key=query-secret', headers });
    expect(document).toMatchObject({
      url: 'https://h/mcp?[redacted]',
      origin: 'config',
      created_time: 1000,
      headers: { A: headers.A, B: headers.B, C: headers.C, D: '[redacted]', E: '[redacted]' },
    });
  });

  it('keeps its secrets known, and ordinary values out of them', () => {
    const headers = {
      Authorization: 'Bearer literal-4712',
      'X-Tenant': 'acme',
      'X-Home': '{env:HOME}',
      'Proxy-Authorization': 'Basic {env:USER_NAME}:{env:PASSWORD}',
    };
    const { secrets } = declared({ url: 'https://h/mcp?api_key=query-secret&lang=en', headers });
    const basic = Buffer.from('jörg:pa:ss wort').toString('base64');
    expect([...secrets].sort()).toEqual(
      ['Bearer literal-4712', 'literal-4712', 'jörg', 'pa:ss wort', basic, 'query-secret'].sort(),
    );
  });

  it('keeps every value of a query that is not shown, whatever its name', () => {
    const { secrets } = declared({ url: 'https://h/mcp?code=s3cr3t%2Fcode1&sig=abc&page=production&v=2026-07-28' });
    expect([...secrets].sort()).toEqual(['2026-07-28', 'abc', 's3cr3t%2Fcode1', 's3cr3t/code1'].sort());
  });

  it('keeps literal values of an environment that are secret by their look', () => {
    const environment = {
      DATABASE_URL: 'postgres://usr:pa55%40w0rd@db/x',
      GITHUB_PAT: 'ghp_literal',
      NODE_ENV: 'production',
      SEED: 'a8f5f167f44f4964e6c998dee827110c',
      PORT: '8080',
    };
    const { secrets } = declared({ command: ['x'], environment });
    expect([...secrets].sort()).toEqual(
      ['usr:pa55%40w0rd', 'pa55%40w0rd', 'pa55@w0rd', 'ghp_literal', environment.SEED].sort(),
    );
  });

  it('names a header once, whatever its case', () => {
    const headers = { Authorization: 'Bearer one-4711', authorization: 'Bearer two-4712' };
    const { connector } = declared({ url: 'https://h/mcp', headers });
    expect(connector.declared?.problem).toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('headers names authorization twice, in two spellings'),
    });
  });

  it.each<[JsonObject, string]>([
    [{ url: '' }, 'url must be the whole http:// or https:// address'],
    [{ url: 7 }, 'url must be the whole http:// or https:// address'],
    [{ url: 'ftp://h/mcp' }, 'url must be the whole http:// or https:// address'],
    [{ url: 'h.example/mcp' }, 'url must be the whole http:// or https:// address'],
    [{ url: 'https://ann:geheim@h/mcp' }, 'url must not hold a user or a password'],
    [{ url: 'https://h/mcp#x' }, 'url must not have a fragment'],
    [{ url: 'https://h/{env:TOKEN}/mcp' }, 'url uses {env:…}'],
    [{ url: 'http://0x7f.1/mcp' }, 'The numeric host of the address is not in its plain spelling'],
    [{ url: 'https://h/mcp', headers: [] }, 'headers must be an object of texts'],
    [{ url: 'https://h/mcp', headers: { 'A B': 'x' } }, "Header 'A B' is not a valid HTTP header name"],
    [
      { url: 'https://h/mcp', headers: { A: 'geheim\r\nX: y' } },
      "Header 'A' cannot be sent: Its value holds a line break",
    ],
    [
      { url: 'https://h/mcp', headers: { A: '{env:MISSING}' } },
      'header A uses {env:MISSING}, but the variable MISSING is not set',
    ],
    [
      { url: 'https://h/mcp', headers: { A: '{env:TENON_MASTER_KEY}' } },
      'header A uses {env:TENON_MASTER_KEY}: the variables of Tenon itself',
    ],
    [
      { url: 'https://h/mcp', headers: { A: '{env:tenon_master_key}' } },
      'header A uses {env:tenon_master_key}: the variables of Tenon itself',
    ],
    [{ url: 'https://h/mcp', auth: 'oauth' }, 'auth must be an object'],
    [{ url: 'https://h/mcp', auth: { type: 'oauth2', scpoe: 'a' } }, "auth has no member 'scpoe'"],
    [
      { url: 'https://h/mcp', auth: { type: 'oauth2', client_secret: '{env:MISSING}' } },
      'auth.client_secret uses {env:MISSING}',
    ],
  ])('with a mistake is a server with a problem: %j', (entry, message) => {
    const { connector, endpoint } = declared(entry);
    expect(connector.protocol).toBe('mcp_streamable_http');
    expect(connector.declared?.problem?.code).toBe('invalid_config');
    expect(connector.declared?.problem?.message).toContain(`Server "srv" of /etc/site/tenon.json: ${message}`);
    expect(JSON.stringify(connector)).not.toContain('geheim');
    if (!message.startsWith('The numeric')) expect(endpoint).toBeUndefined();
  });

  it.each([
    'http://169.254.169.254/latest',
    'http://metadata.google.internal/x',
    'http://[fe80::1]/mcp',
    'http://0.0.0.0/mcp',
  ])('never is link-local or cloud metadata: %s', (url) => {
    expect(problem({ url })).toMatchObject({
      code: 'address_refused',
      message: expect.stringContaining('no setting allows it'),
    });
  });

  it('keeps auth, its secrets hidden', () => {
    const auth = { type: 'oauth2', client_id: 'tenon', client_secret: 'literal-secret', private_key: '{env:TOKEN}' };
    const { document, secrets, connector } = declared({ url: 'https://h/mcp', auth });
    expect(connector.declared?.problem).toBeUndefined();
    expect(document.auth).toEqual({ ...auth, client_secret: '[redacted]' });
    expect(secrets).toEqual(['literal-secret', 'tok-4711-secret']);
  });
});

describe('an entry', () => {
  it.each<[JsonValue, string]>([
    [{}, 'it has no command and no url'],
    [{ enabled: false }, 'it has no command and no url'],
    [{ command: ['x'], url: 'https://h/mcp' }, 'it has both command and url'],
    [{ type: 'local', url: 'https://h/mcp' }, 'type is local, but it has a url'],
    [{ type: 'remote', command: ['x'] }, 'type is remote, but it has a command'],
    [{ type: 'websocket', url: 'https://h/mcp' }, 'type must be local (or stdio) or remote'],
    [{ type: 7, url: 'https://h/mcp' }, 'type must be local (or stdio) or remote'],
    [{ type: 'sse', url: 'https://h/sse' }, 'type sse is not served: it was replaced by Streamable HTTP'],
    ['x', 'it must be an object'],
    [null, 'it must be an object'],
    [['x'], 'it must be an object'],
    [{ url: 'https://h/mcp', enabled: 'yes' }, 'enabled must be true or false'],
    [{ url: 'https://h/mcp', disabled: 1 }, 'disabled must be true or false'],
    [{ url: 'https://h/mcp', agents: '*' }, 'agents must be an array'],
    [{ url: 'https://h/mcp', agents: [1] }, 'agents must be an array'],
    [{ url: 'https://h/mcp', timeout: '5s' }, 'timeout must be a whole number of milliseconds'],
    [{ url: 'https://h/mcp', timeout: 0 }, 'timeout must be a whole number of milliseconds'],
    [{ url: 'https://h/mcp', client_config: { elicitation: 'always' } }, 'client_config.elicitation must be one of'],
  ])('with a mistake says what it is: %j', (entry, message) => {
    expect(problem(entry)?.message).toContain(message);
  });

  it.each(['My Server', '_x', '-x', 'a.b', '', 'x'.repeat(513), '__proto__'])(
    'has a name that is an id: %s',
    (name) => {
      expect(problem({ url: 'https://h/mcp' }, name)).toMatchObject({
        code: 'invalid_config',
        message: expect.stringContaining('server id '),
      });
    },
  );

  it.each<[JsonObject, boolean]>([
    [{}, true],
    [{ enabled: true }, true],
    [{ enabled: false }, false],
    [{ disabled: true }, false],
    [{ disabled: false }, true],
    [{ enabled: true, disabled: true }, false],
  ])('is enabled unless it says otherwise: %j', (members, enabled) => {
    expect(declared({ url: 'https://h/mcp', ...members }).connector.declared?.enabled).toBe(enabled);
    expect(declared({ url: '', ...members }).connector.declared?.enabled).toBe(enabled);
  });

  it('has limits: timeout in milliseconds, client_config before it', () => {
    const limits = (members: JsonObject) => declared({ command: ['x'], ...members }).connector.clientConfig;
    expect(limits({})).toMatchObject({
      connection_timeout: 30,
      read_timeout: 30,
      max_retry_times: 3,
      max_total_timeout: 300,
    });
    expect(limits({ timeout: 1500 })).toMatchObject({
      connection_timeout: 1.5,
      read_timeout: 1.5,
      max_total_timeout: 300,
    });
    expect(limits({ timeout: 600_000 })).toMatchObject({
      connection_timeout: 600,
      retry_timeout_seconds: 600,
      max_total_timeout: 600,
    });
    expect(limits({ timeout: 5000, client_config: { read_timeout: 9, elicitation: 'ask' } })).toMatchObject({
      connection_timeout: 5,
      read_timeout: 9,
      elicitation: 'ask',
    });
    for (const timeout of [1, 999, 1001, 8200, 12_345]) {
      const milliseconds = limits({ timeout }).read_timeout * 1000;
      expect([Number.isInteger(milliseconds), milliseconds >= timeout]).toEqual([true, true]);
    }
    expect(declared({ command: ['x'], timeout: 30 }).warnings).toEqual(['timeout is in milliseconds: 30 ms is short']);
  });

  it('says which members nobody reads', () => {
    expect(declared({ url: 'https://h/mcp', timout: 1, command: null, args: [], trust: true }).warnings).toEqual([
      'not read, because such a server has no such member: timout (did you mean timeout?), args, trust',
    ]);
  });

  it.each<[JsonObject, RegExp]>([
    [{ ulr: 'https://h/mcp' }, /no command and no url.* has a member ulr \(did you mean url\?\)\.$/],
    [{ Command: ['x'] }, /has a member Command \(did you mean command\?\)/],
    [
      { url: 'nowhere', haeders: {}, zebra: 1 },
      /url must be.* has a member haeders \(did you mean headers\?\), zebra\.$/,
    ],
  ])('that cannot be used names what nobody reads too: %j', (entry, message) => {
    expect(problem(entry)?.message).toMatch(message);
  });

  it('whose command is one text is told how it is written', () => {
    expect(problem({ command: ' npx -y  foo' })?.message).toMatch(/\["npx", "…"\], as in \["npx", "-y", "foo"\].*args/);
    expect(problem({ command: 'my server', args: [] })).toBeUndefined();
    expect(problem({ command: ['/opt/My Server/run'] })).toBeUndefined();
  });

  it('is shown with the limits in force', () => {
    const { document, connector } = declared({ command: ['x'], timeout: 5000, client_config: { read_timeout: 9 } });
    expect(document).toMatchObject({ timeout: 5000, client_config: { connection_timeout: 5, read_timeout: 9 } });
    expect(connector.declared?.limitsOfTimeout).toEqual(['connection_timeout']);
    expect(declared({ command: ['x'] }).document).not.toHaveProperty('timeout');
  });

  it('names the agents it joins', () => {
    expect(declared({ command: ['x'], agents: ['*', 'helper'] }).connector.declared?.agents).toEqual(['*', 'helper']);
  });
});
