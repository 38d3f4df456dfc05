import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';
import { privateAuthority, serverCertificate, writePair } from '../support/certificates.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
/** The bundle is what is shipped, so it is what is started here. */
const BUNDLE = `reports/bundle-cli-${process.pid}`;
const PASSWORD = 'correct horse';
const ROOT_USER = { TENON_USER: 'root', TENON_PASSWORD: PASSWORD };

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

let folder: string;
const apps: TestApp[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-cli-'));
  execFileSync(process.execPath, ['scripts/build.mjs', BUNDLE], { cwd: ROOT, stdio: 'inherit' });
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await rm(join(ROOT, BUNDLE), { recursive: true, force: true });
});

/** The command as a process of its own, in an empty folder and with no variables but these. */
function tenon(line: readonly string[], env: Record<string, string>, input = ''): Promise<Ended> {
  const own = { PATH: process.env.PATH ?? '', HOME: folder };
  const child = spawn(process.execPath, [join(ROOT, BUNDLE, 'main.js'), ...line], {
    cwd: folder,
    env: { ...own, ...env },
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

async function start(options: Parameters<typeof startApp>[0] = {}): Promise<TestApp> {
  const app = await startApp(options);
  apps.push(app);
  return app;
}

const withRoot = (config: object = {}) =>
  start({ config: { firstAdmin: { name: 'root', password: PASSWORD }, ...config } });

describe('users', () => {
  it('the first one ends open mode, and later ones need a sign-in', async () => {
    const { url } = await start();
    const env = { TENON_URL: url };
    expect(await tenon(['users', 'list'], env)).toEqual({
      code: 0,
      out: 'NAME  ROLES  BACKEND ROLES  STATE  DESCRIPTION\n',
      err: '',
    });
    const added = await tenon(['users', 'add', 'root'], env, `${PASSWORD}\n`);
    expect([added.code, added.out]).toEqual([0, "'root' created.\n"]);
    expect(added.err).toContain("'root' has the role all_access");
    expect(added.err).toContain('has left open mode');

    const refused = await tenon(['users', 'list'], env);
    expect([refused.code, refused.out]).toEqual([4, '']);
    expect(refused.err).toMatch(
      /^tenon: The server does not know who is calling: .*TENON_USER and TENON_PASSWORD\.\n$/,
    );
    const listed = await tenon(['users', 'list'], { ...env, ...ROOT_USER });
    expect(listed.out).toMatch(/\nroot {2}all_access {2}- {14}active {2}-\n$/);
  });

  it('are added with roles and groups, get another password, keep the rest, and are removed', async () => {
    const { url } = await withRoot();
    const env = { TENON_URL: url, ...ROOT_USER };
    const line = ['users', 'add', 'ann', '--role', 'ml_read_access', '--role', 'tenon_agent_user'];
    const added = await tenon(
      [...line, '--backend-role', 'weather', '--description', 'Reads', '--json'],
      env,
      'a first secret\r\nand more\n',
    );
    expect([added.code, JSON.parse(added.out)]).toEqual([0, { status: 'CREATED', message: "'ann' created." }]);
    const again = await tenon(['users', 'add', 'ann'], env, 'another secret');
    expect([again.code, again.err]).toEqual([
      1,
      "tenon: There is a user 'ann' already; `tenon users passwd` sets its password\n",
    ]);

    const ann = (password: string) => ({ TENON_URL: url, TENON_USER: 'ann', TENON_PASSWORD: password });
    expect((await tenon(['mcp', 'list'], ann('a first secret'))).code).toBe(0);
    expect(await tenon(['users', 'list'], ann('a first secret'))).toMatchObject({
      code: 4,
      err: expect.stringMatching(/^tenon: Refused by the server: .*user:read/),
    });
    expect((await tenon(['users', 'passwd', 'ann'], env, 'a second secret')).out).toBe("'ann' updated.\n");
    expect((await tenon(['mcp', 'list'], ann('a first secret'))).code).toBe(4);
    expect((await tenon(['mcp', 'list'], ann('a second secret'))).code).toBe(0);
    const { out } = await tenon(['users', 'list', '--json'], env);
    expect(JSON.parse(out).ann).toMatchObject({
      opendistro_security_roles: ['ml_read_access', 'tenon_agent_user'],
      backend_roles: ['weather'],
      description: 'Reads',
    });

    expect((await tenon(['users', 'remove', 'ann'], env)).out).toBe("'ann' deleted.\n");
    for (const verb of ['remove', 'passwd']) {
      const { code, err } = await tenon(['users', verb, 'ann'], env, 'a third secret');
      expect([verb, code, err]).toEqual([verb, 1, expect.stringMatching(/ann/)]);
    }
  });

  it('need a password that can be used, which is never taken from the command line', async () => {
    const { url, lines } = await withRoot();
    const env = { TENON_URL: url, ...ROOT_USER };
    const nothing = await tenon(['users', 'add', 'ann'], env, '\n');
    expect([nothing.code, nothing.err]).toEqual([2, expect.stringContaining('No password was given')]);
    expect(await tenon(['users', 'add', 'ann'], env, 'short')).toMatchObject({
      code: 1,
      err: 'tenon: The server answered 400: Password is too short\n',
    });
    expect((await tenon(['users', 'add', 'ann', 'a secret word'], env, 'a secret word')).code).toBe(2);
    expect((await tenon(['users', 'add', 'ann'], env, 'x'.repeat(5000))).code).toBe(2);
    expect((await tenon(['users', 'add', 'ann'], { TENON_URL: url, TENON_USER: 'root' }, 'a secret word')).err).toBe(
      'tenon: TENON_USER is set and TENON_PASSWORD is not, and there is no terminal to ask\n',
    );
    expect(lines.join('')).not.toContain('a secret word');
  });
});

describe('keys', () => {
  it('are created for scripts, listed and revoked', async () => {
    const { url } = await withRoot();
    const env = { TENON_URL: url, ...ROOT_USER };
    const made = await tenon(['keys', 'create', 'ci', '--scope', 'connection:*', '--expires', '90d'], env);
    const key = made.out.trim();
    expect(key).toMatch(/^tnk_[A-Za-z0-9]{20}_[\w-]{43}$/);
    expect(made.err).toMatch(/^Key \w{20} expires \d{4}-\d\d-\d\dT[\d:]+Z\. It is not shown again\.\n$/);

    const withKey = { TENON_URL: url, TENON_API_KEY: key };
    expect((await tenon(['mcp', 'list'], withKey)).code).toBe(0);
    expect((await tenon(['roles', 'list'], withKey)).code).toBe(4);
    const listed = await tenon(['keys', 'list'], env);
    expect(listed.out).toMatch(
      /\n\w{20} {2}ci {4}user:root {2}all {4}connection:\* {2}\d{4}-\S+ {2}\d{4}-\S+ {2}valid\n$/,
    );
    expect(listed.out).not.toContain(key.slice(-43));
    const [id = ''] = /\w{20}/.exec(made.err) ?? [];
    expect((await tenon(['keys', 'revoke', id], env)).out).toBe(`Key ${id} is revoked.\n`);
    expect((await tenon(['mcp', 'list'], withKey)).code).toBe(4);
    expect((await tenon(['keys', 'list'], env)).out).toMatch(/revoked\n$/);
    expect((await tenon(['keys', 'revoke', 'nothing'], env)).code).toBe(1);
  });

  it.each(['0d', '2001-01-01', 'soon', '-5d'])('do not expire "%s"', async (when) => {
    const { code, err } = await tenon(['keys', 'create', 'ci', `--expires=${when}`], {
      TENON_URL: 'http://127.0.0.1:9',
    });
    expect([code, err]).toEqual([2, expect.stringContaining('--expires')]);
  });

  it('need somebody they belong to', async () => {
    const { url } = await start();
    const { code, out, err } = await tenon(['keys', 'create', 'ci'], { TENON_URL: url });
    expect([code, out, err]).toEqual([1, '', expect.stringMatching(/409: In open mode .*tenon users add/)]);
  });
});

describe('roles', () => {
  it('are listed and shown', async () => {
    const { url } = await start();
    const env = { TENON_URL: url };
    expect((await tenon(['roles', 'list'], env)).out).toMatch(/^NAME .*\n(.*\n)*ml_full_access +built in +\S/);
    const path = '/_plugins/_security/api/roles/careful';
    const role = { cluster_permissions: ['agent:*'], denied_tools: [{ connector_id: 'files', tool: 'delete_.*' }] };
    expect((await apps[0]?.request('PUT', path, role))?.status).toBe(201);
    expect((await tenon(['roles', 'show', 'careful'], env)).out).toBe(
      'careful (own)\nallows:\n  agent:*\ndenies the tools:\n  delete_.* of files\n',
    );
    expect(JSON.parse((await tenon(['roles', 'show', 'careful', '--json'], env)).out)).toHaveProperty('careful');
    expect((await tenon(['roles', 'show', 'nobody'], env)).code).toBe(1);
  });
});

describe('role administration', () => {
  it('makes a role, gives it by mapping, takes it back and removes it', async () => {
    const { url } = await withRoot();
    const env = { TENON_URL: url, ...ROOT_USER };
    const ann = { TENON_URL: url, TENON_USER: 'ann', TENON_PASSWORD: 'a first secret' };
    const run = async (...line: string[]) => {
      const { code, out, err } = await tenon(['roles', ...line], env);
      return [code, out || err];
    };
    await tenon(['users', 'add', 'ann', '--backend-role', 'weather'], env, 'a first secret');
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(4);

    const denied = ['--deny-tool', 'delete_.*@files', '--deny-tool', 'drop', '--deny-tool', 'a@b@'];
    const line = ['set', 'careful', '--permission', 'connection:*', ...denied, '--description', 'Looks only'];
    expect(await run(...line)).toEqual([0, "'careful' created.\n"]);
    expect((await run('show', 'careful'))[1]).toBe(
      'careful (own)\nLooks only\nallows:\n  connection:*\ndenies the tools:\n' +
        '  delete_.* of files\n  drop of every connector\n  a@b of every connector\n',
    );
    expect(await run('assign', 'careful', '--backend-role', 'weather')).toEqual([0, "'careful' created.\n"]);
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(0);
    expect(await run('assign', 'careful', '--user', 'ann', '--user', 'bob')).toEqual([0, "'careful' updated.\n"]);
    expect(await run('unassign', 'careful', '--backend-role', 'weather', '--user', 'bob')).toEqual([
      0,
      "'careful' updated.\n",
    ]);
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(0);
    expect(await run('unassign', 'careful', '--user', 'eve')).toEqual([
      1,
      expect.stringContaining('does not name eve'),
    ]);
    const last = await tenon(['roles', 'unassign', 'careful', '--user', 'ann', '--json'], env);
    expect(JSON.parse(last.out)).toEqual({ status: 'OK', message: "'careful' deleted." });
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(4);
    expect(await run('remove', 'careful')).toEqual([0, "'careful' deleted.\n"]);
    expect((await run('remove', 'careful'))[0]).toBe(1);
    expect((await run('assign', 'careful', '--user', 'ann'))[0]).toBe(1);
    expect((await run('set', 'all_access', '--permission', '*'))[0]).toBe(4);
    expect((await run('set', 'careful'))[0]).toBe(2);
    expect((await run('assign', 'careful'))[0]).toBe(2);
  });

  it('changes the roles of a user and keeps the rest, the password too', async () => {
    const { url } = await withRoot();
    const env = { TENON_URL: url, ...ROOT_USER };
    const ann = { TENON_URL: url, TENON_USER: 'ann', TENON_PASSWORD: 'a first secret' };
    await tenon(['users', 'add', 'ann', '--backend-role', 'weather', '--description', 'Reads'], env, 'a first secret');
    const set = await tenon(['users', 'roles', 'ann', '--role', 'ml_read_access', '--role', 'tenon_agent_user'], env);
    expect([set.code, set.out]).toEqual([0, "'ann' updated.\n"]);
    expect((await tenon(['users', 'roles', 'ann'], env)).out).toBe('ml_read_access, tenon_agent_user\n');
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(0);
    expect(JSON.parse((await tenon(['users', 'list', '--json'], env)).out).ann).toMatchObject({
      backend_roles: ['weather'],
      description: 'Reads',
    });
    expect((await tenon(['users', 'roles', 'ann', '--none'], env)).code).toBe(0);
    expect((await tenon(['mcp', 'list'], ann)).code).toBe(4);
    expect((await tenon(['users', 'roles', 'ann', '--role', 'nothing'], env)).code).toBe(1);
    expect((await tenon(['users', 'roles', 'bob', '--none'], env)).code).toBe(1);
    expect((await tenon(['users', 'roles', 'ann', '--none', '--role', 'ml_read_access'], env)).code).toBe(2);
  });
});

describe('mcp', () => {
  let server: FakeMcpServer;
  beforeAll(async () => {
    const echo = { name: 'echo', description: 'Says\nit back.', inputSchema: { type: 'object' } };
    server = await startFakeMcpServer({ tools: [echo] });
  });
  afterAll(() => server.stop());

  async function connected(): Promise<Record<string, string>> {
    const { url, request } = await start();
    const connector = {
      connector_id: 'fake',
      name: 'Fake',
      version: 1,
      protocol: 'mcp_streamable_http',
      credential: {},
    };
    const made = await request('POST', '/_plugins/_ml/connectors/_create', { ...connector, url: server.origin });
    expect(made.status).toBe(200);
    return { TENON_URL: url };
  }

  it('shows connections and tools, and calls them', async () => {
    const env = await connected();
    expect((await tenon(['mcp', 'list'], env)).out).toMatch(/\nfake {2}Fake {2}idle .* api {5}remote {5}-\n/);
    expect((await tenon(['mcp', 'tools', 'fake'], env)).out).toBe('NAME  DESCRIPTION\necho  Says it back.\n');
    expect((await tenon(['mcp', 'status', 'fake', '--probe'], env)).out).toMatch(
      /^connector: {4}fake \(Fake\)\nstatus: {7}connected since [^\n]*\n[\s\S]*tools: {8}echo\n/,
    );
    expect(await tenon(['mcp', 'call', 'fake', 'echo', '{"text":"hi"}'], env)).toEqual({
      code: 0,
      out: 'echo: {"text":"hi"}\n',
      err: '',
    });
    const piped = await tenon(['mcp', 'call', 'fake', 'echo', '-', '--json'], env, '{"text":"piped"}');
    expect(JSON.parse(piped.out)).toMatchObject({ content: [{ type: 'text', text: 'echo: {"text":"piped"}' }] });
    expect((await tenon(['mcp', 'call', 'fake', 'echo', '[1]'], env)).code).toBe(2);

    server.on('tools/call', {
      result: { content: [{ type: 'image', data: '', mimeType: 'image/png' }], isError: true },
    });
    expect(await tenon(['mcp', 'call', 'fake', 'echo'], env)).toEqual({
      code: 1,
      out: '[image image/png; --json shows it]\n',
      err: 'tenon: The tool echo reported an error\n',
    });
    server.on('tools/call', { result: { content: [{ type: 'text', text: 'one\n\u001b]0;title\u0007\u009b31mtwo' }] } });
    expect((await tenon(['mcp', 'call', 'fake', 'echo'], env)).out).toBe(
      'one\n\u{fffd}]0;title\u{fffd}\u{fffd}31mtwo\n',
    );
    const asJson = await tenon(['mcp', 'call', 'fake', 'echo', '--json'], env);
    expect(asJson.out).toContain('one\\n\\u001b]0;title\\u0007\\u009b31mtwo');
    server.on('tools/call', 'normal');
  });

  it('shows what was left out, what is called otherwise and why, who suffers, and what a local server wrote', async () => {
    const config = join(folder, 'declared.json');
    const program = [
      "for (let n = 1; n <= 12; n += 1) console.error('line ' + n);",
      "console.error('bad\\rstatus: connected');",
      'process.exit(3);',
    ].join(' ');
    const declared = { local: { command: [process.execPath, '-e', program], agents: ['*'], enabled: false } };
    await writeFile(config, JSON.stringify({ mcp: declared }));
    const app = await start({ config: { configFile: config, namedConfigFiles: ['TENON_CONFIG'] } });
    const env = { TENON_URL: app.url };
    const names = await startFakeMcpServer({
      tools: [
        { name: 'dotted.name', inputSchema: { type: 'object' } },
        { name: 'broken', inputSchema: { type: 'array' } },
      ],
    });
    const made = { connector_id: 'names', name: 'Names', version: 1, protocol: 'mcp_streamable_http' };
    await app.request('POST', '/_plugins/_ml/connectors/_create', { ...made, url: names.origin, credential: {} });
    const shown = (await tenon(['mcp', 'status', 'names', '--probe'], env)).out;
    await names.stop();
    expect(shown).toMatch(/\norigin: {7}api, remote\n/);
    expect(shown).toMatch(/\ntools: {8}dotted\.name\n/);
    expect(shown).toMatch(/\nleft out: {5}broken: \S.*\n/);
    expect(shown).toMatch(/\nrenamed: {6}dotted\.name: offered as \S+: \S.*\n/);

    const connector = chatConnector('https://api.openai.com/v1/chat/completions');
    const model = { name: 'm', function_name: 'remote', connector };
    const { body } = await app.request('POST', '/_plugins/_ml/models/_register', model);
    const agent = { name: 'sufferer', type: 'conversational', llm: { model_id: String(body.model_id) } };
    const registered = await app.request('POST', '/_plugins/_ml/agents/_register', agent);
    expect(registered.status, registered.text).toBe(200);
    const local = await tenon(['mcp', 'enable', 'local'], env);
    expect(local.code).toBe(1);
    expect(local.out).toMatch(/\norigin: {7}config, local\n/);
    expect(local.out).toMatch(/\nagents: {7}sufferer\n/);
    const [, stderr = ''] = local.out.split('\nstderr:');
    expect(
      stderr
        .split('\n')
        .slice(0, 3)
        .map((line) => line.trim()),
    ).toEqual(['line 5', 'line 6', 'line 7']);
    expect(local.out.match(/^status:/gm)).toHaveLength(1);
  });

  it('switches a connection off and on, and opens it again', async () => {
    const env = await connected();
    expect((await tenon(['mcp', 'disable', 'fake'], env)).out).toContain('disabled since');
    expect((await tenon(['mcp', 'call', 'fake', 'echo'], env)).err).toMatch(/^tenon: The server answered 409: /);
    expect((await tenon(['mcp', 'enable', 'fake', '--json'], env)).out).toMatch(/"status": "connected"/);
    await server.stop();
    const failed = (await tenon(['mcp', 'status', 'fake', '--probe'], env)).out;
    expect(failed).toMatch(/status: {7}failed since .*\n[\s\S]*error: {8}\w+: .*\nremedy: {7}\S/);
    expect(failed).not.toContain('breaker:');
    for (const action of ['reconnect', 'disable', 'enable']) {
      const { code, out, err } = await tenon(['mcp', action, 'fake'], env);
      const [ends, says] =
        action === 'disable' ? [0, ''] : [1, `tenon: The connection of fake is failed after ${action}\n`];
      expect([action, code, err]).toEqual([action, ends, says]);
      expect(out).toContain(action === 'disable' ? 'disabled since' : 'failed since');
    }
    for (let probes = 0; probes < 3; probes += 1) {
      await fetch(`${env.TENON_URL}/_plugins/_ml/connectors/fake/_status?probe=true`);
    }
    const held = (await tenon(['mcp', 'status', 'fake'], env)).out;
    expect(held).toMatch(/\nbreaker: {6}open after \d+ failures in a row, one try is let through at \d{4}-.*Z\n/);
    await server.start();
    expect(await tenon(['mcp', 'reconnect', 'fake'], env)).toMatchObject({
      code: 0,
      out: expect.stringContaining('connected since'),
    });
    const history = (await tenon(['mcp', 'history', 'fake'], env)).out.split('\n');
    expect(history[0]).toMatch(/^TIME +FROM +TO +CAUSE +CODE +MESSAGE$/);
    expect(history[1]).toMatch(/^\d{4}-\d\d-\d\dT.*Z {2}connecting +connected +reconnect by open/);
    expect(history.find((line) => line.includes('connection_refused'))).toContain(
      'connector "Fake" at http://127.0.0.1',
    );
    const newest = (await tenon(['mcp', 'history', 'fake', '--size', '1', '--json'], env)).out;
    expect(JSON.parse(newest)).toMatchObject({ connector_id: 'fake', transitions: [{ to: 'connected' }] });
    expect((await tenon(['mcp', 'history', 'fake', '--size', 'x'], env)).err).toContain('from 1 to 1000');
    expect((await tenon(['mcp', 'reconnect', 'no/such?'], env)).err).toContain('no/such?');
  });
});

describe('a server that cannot be reached', () => {
  it('is told from one that is none of ours', async () => {
    const stranger = createServer((_request, response) => response.writeHead(302, { location: '/' }).end('<html>'));
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
    expect(await tenon(['users', 'list'], { TENON_URL: url })).toMatchObject({
      code: 3,
      err: expect.stringContaining('answered 302 without JSON'),
    });
    await new Promise((resolve) => stranger.close(resolve));
    expect(await tenon(['users', 'list'], { TENON_URL: url })).toMatchObject({
      code: 3,
      err: expect.stringMatching(/^tenon: Cannot reach a Tenon server at .*ECONNREFUSED.*Is it running\?.*TENON_URL/),
    });
  });

  it('is one whose certificate is not trusted, until its CA is', async () => {
    const ca = await privateAuthority();
    const tls = await writePair(folder, await serverCertificate(ca));
    const trusted = join(folder, 'ca.pem');
    await writeFile(trusted, ca.cert);
    const { url, port } = await withRoot({ tls });
    const env = { TENON_URL: url, ...ROOT_USER };
    expect(await tenon(['users', 'list'], env)).toMatchObject({
      code: 3,
      err: expect.stringContaining('NODE_EXTRA_CA_CERTS'),
    });
    expect(await tenon(['users', 'list'], { ...env, NODE_EXTRA_CA_CERTS: trusted })).toMatchObject({
      code: 0,
      err: '',
    });
    const plain = await tenon(['users', 'list'], { ...env, TENON_URL: `http://127.0.0.1:${port}` });
    expect([plain.code, plain.err]).toEqual([3, expect.stringContaining('start with https://')]);
  });
});

describe('a command line', () => {
  it.each<[string[], Record<string, string>, string]>([
    [['users'], {}, 'Usage: tenon users'],
    [['users', 'fly'], {}, "unknown command 'fly'"],
    [['users', 'add'], {}, "missing required argument 'name'"],
    [['keys', 'list', '--bogus'], {}, "unknown option '--bogus'"],
    [['users', 'list'], { TENON_URL: 'ftp://127.0.0.1' }, 'TENON_URL must be'],
    [['users', 'list'], { TENON_URL: 'http://root:secret-word@127.0.0.1' }, 'TENON_USER and TENON_PASSWORD'],
    [['users', 'list'], { TENON_API_KEY: 'two words' }, 'TENON_API_KEY must be'],
    [['users', 'list'], { TENON_USER: 'a:b' }, 'TENON_USER must not hold a colon'],
    [['mcp', 'status', '..'], {}, '.. is no id and no name'],
  ])('%j with %j is refused before anything is sent', async (line, env, text) => {
    const { code, out, err } = await tenon(line, env);
    expect([code, out, err]).toEqual([2, '', expect.stringContaining(text)]);
    expect(err).not.toContain('secret-word');
  });

  it('has help for every verb, and never opens the store', async () => {
    for (const group of ['users', 'keys', 'roles', 'mcp']) {
      expect(await tenon([group, '--help'], {})).toMatchObject({
        code: 0,
        err: '',
        out: expect.stringContaining('list'),
      });
    }
    expect((await tenon(['users', 'add', '--help'], {})).out).toContain('--backend-role');
    await expect(stat(join(folder, 'data'))).rejects.toThrow();
    expect((await tenon(['serve', '--tls'], {})).err).toMatch(/^tenon: Unknown option '--tls'/);
  });
});
