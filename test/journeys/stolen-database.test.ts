import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPasswordHasher } from '../../src/identity/passwords.ts';
import { newKeyText, readKey } from '../../src/secrets/master-key.ts';
import { createVault } from '../../src/secrets/vault.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { createClock } from '../support/clock.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { basic } from '../support/identity.ts';
import { chatConnector } from '../support/rest.ts';

const ML = '/_plugins/_ml';
const USERS = '/_plugins/_security/api/internalusers';
const PRIVATE = ['http://127\\.0\\.0\\.1.*'];
const ROOT = 'Operators-password-1!';
const SHARED = 'Shared-password-2ü';
const STATIC_KEY = 'the-static-key-of-the-operator';
const CREDENTIALS = { token: 'mcp-token-canary-3', word: 'Basic-word-canary-4', key: 'chat-key-canary-5' };
const TYPED = 'typed-into-the-wrong-field-6';

let folder: string;
let stolen: string;
let app: TestApp;
let llm: FakeLlmServer;
let mcp: FakeMcpServer;
const keys: { readonly id: string; readonly secret: string; readonly whole: string }[] = [];
const ids: { mcp: string; model: string } = { mcp: '', model: '' };

/** A server that was used for a while, and what somebody took of its data folder while it ran. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-stolen-'));
  stolen = join(folder, 'stolen');
  [llm, mcp] = await Promise.all([
    startFakeLlm({ replies: ['an answer'], authorization: `Bearer ${CREDENTIALS.key}` }),
    startFakeMcpServer(),
  ]);
  const firstAdmin = { name: 'root', password: ROOT };
  const config = { apiKey: STATIC_KEY, firstAdmin, trustedPrivateEndpoints: PRIVATE };
  app = await startApp({ folder, config });
  const root = basic('root', ROOT);
  for (const name of ['ann', 'bob']) {
    const user = { password: SHARED, opendistro_security_roles: ['ml_full_access'] };
    await ok(app, root, 'PUT', `${USERS}/${name}`, user);
  }
  for (const owner of [root, basic('ann', SHARED), `Bearer ${STATIC_KEY}`]) {
    const { id, api_key: whole } = await ok(app, owner, 'POST', `${ML}/api_keys`, { name: 'k' });
    keys.push({ id: String(id), whole: String(whole), secret: String(whole).slice(-43) });
  }
  const created = await ok(app, root, 'POST', `${ML}/connectors/_create`, {
    name: 'weather',
    version: 1,
    protocol: 'mcp_streamable_http',
    url: mcp.origin,
    credential: { token: CREDENTIALS.token, password: CREDENTIALS.word },
    headers: { 'X-Token': '${credential.token}', Authorization: 'Basic tenon:${credential.password}' },
  });
  ids.mcp = String(created.connector_id);
  await ok(app, root, 'GET', `${ML}/connectors/${ids.mcp}/tools`);
  const connector = { ...chatConnector(llm.url), credential: { openai_key: CREDENTIALS.key } };
  const model = { name: 'chat', function_name: 'remote', connector };
  ids.model = String((await ok(app, root, 'POST', `${ML}/models/_register?deploy=true`, model)).model_id);
  await ok(app, root, 'POST', `${ML}/models/${ids.model}/_predict`, { parameters: { prompt: 'hello' } });
  await ok(app, `Bearer ${keys[1]?.whole}`, 'GET', `${ML}/connectors/${ids.mcp}`);
  for (let guess = 0; guess < 6; guess++) {
    for (const header of [basic(TYPED, 'x'), basic('ann', `${TYPED}${guess}`), `Bearer ${TYPED}`]) {
      expect([401, 429]).toContain((await send(app, header, 'GET', '/')).status);
    }
  }
  await cp(app.config.dataDir, join(stolen, 'running'), { recursive: true });
  await app.close();
  await cp(app.config.dataDir, join(stolen, 'closed'), { recursive: true });
});
afterAll(async () => {
  await Promise.all([llm.close(), mcp.stop()]);
  await rm(folder, { recursive: true, force: true });
});

function send(to: TestApp, authorization: string, method: string, path: string, body?: unknown): Promise<TestAnswer> {
  return to.request(method, path, body, { authorization });
}

async function ok(to: TestApp, authorization: string, method: string, path: string, body?: unknown) {
  const answer = await send(to, authorization, method, path, body);
  if (answer.status > 299) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}

function spellingsOf(secret: string): Buffer[] {
  const octets = Buffer.from(secret);
  const shifted = [0, 1, 2].map((by) =>
    Buffer.concat([Buffer.alloc(by), octets])
      .toString('base64')
      .slice(2, -4),
  );
  const plain = [octets.toString('hex'), encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...shifted];
  const quick = ['md5', 'sha1', 'sha256', 'sha512'].map((name) => createHash(name).update(octets).digest());
  const written = quick.flatMap((hash) => [
    hash,
    Buffer.from(hash.toString('hex')),
    Buffer.from(hash.toString('base64')),
  ]);
  return [octets, Buffer.from(secret, 'utf16le'), ...plain.map((text) => Buffer.from(text)), ...written];
}

describe('the files of the database', () => {
  it.each(['running', 'closed'])('of a server that was %s hold no password, key or credential', async (state) => {
    const names = await readdir(join(stolen, state), { recursive: true });
    const files = await Promise.all(
      names.map(async (name) => {
        const path = join(stolen, state, name);
        const { mode } = await stat(path);
        return { name, mode: mode & 0o777, octets: await readFile(path) };
      }),
    );
    expect(files.length).toBeGreaterThanOrEqual(state === 'running' ? 2 : 1);
    const everything = Buffer.concat(files.map(({ octets }) => octets));
    expect(everything.includes('user:ann')).toBe(true);
    expect(everything.includes('mcp_streamable_http')).toBe(true);
    for (const { name, mode } of files) expect(mode, name).toBe(0o600);
    const secrets = [ROOT, SHARED, STATIC_KEY, TYPED, ...Object.values(CREDENTIALS)];
    for (const secret of secrets) {
      for (const spelling of spellingsOf(secret)) expect(everything.includes(spelling), secret).toBe(false);
    }
    for (const { secret, whole } of keys) {
      const unhashed = [whole, secret, Buffer.from(secret, 'base64url'), Buffer.from(secret, 'utf16le')];
      for (const spelling of unhashed) expect(everything.includes(spelling), whole).toBe(false);
    }
  });
});

describe('a copy of the database on another machine', () => {
  const keyText = newKeyText();
  let copy: string;
  beforeAll(async () => {
    copy = join(folder, 'thief');
    await mkdir(join(copy, 'key'), { recursive: true, mode: 0o700 });
    await cp(join(stolen, 'running'), join(copy, 'data'), { recursive: true });
    await writeFile(join(copy, 'key', 'master.key'), keyText, { mode: 0o600 });
  });

  const clock = createClock(Date.now());
  const start = () => startApp({ folder: copy, config: { trustedPrivateEndpoints: PRIVATE }, now: clock.now });

  async function inCopy<T>(work: (sql: Awaited<ReturnType<typeof openDatabase>>['kysely']) => Promise<T>): Promise<T> {
    const log = createLogger({ level: 'silent', redactor: createRedactor() });
    const database = await openDatabase({ dataDir: join(copy, 'data'), log });
    try {
      return await work(database.kysely);
    } finally {
      await database.close();
    }
  }

  it('does not start with another key, or with none', async () => {
    await expect(start()).rejects.toThrow(/^This database was sealed under another master key than /);
    await rm(join(copy, 'key', 'master.key'));
    await expect(start()).rejects.toThrow(/key/i);
    expect(await readdir(join(copy, 'key'))).toEqual([]);
    await writeFile(join(copy, 'key', 'master.key'), keyText, { mode: 0o600 });
  });

  it('whose check was forged opens no account with what it stores', async () => {
    const master = readKey(keyText, 'test');
    const probe = createVault(master).seal({ probe: 'tenon' }, { owner: `master-key/${master.id}`, origins: [] });
    await inCopy((sql) =>
      sql.insertInto('master_keys').values({ key_id: master.id, probe, created_time: 1 }).execute(),
    );
    const users = await inCopy((sql) => sql.selectFrom('users').selectAll().execute());
    const rows = await inCopy((sql) => sql.selectFrom('api_keys').selectAll().execute());
    expect([users.length, rows.length]).toEqual([3, 3]);
    expect(new Set(users.map(({ password_hash: hash }) => hash)).size).toBe(3);
    for (const { password_hash: hash } of users) expect(hash).toMatch(/^\$scrypt\$ln=1[5-9],r=8,p=1\$/);

    const headers = [
      ...users.flatMap(({ name, password_hash: hash }) => [
        basic(name, hash),
        basic(name, hash.split('$').at(-1) ?? ''),
        basic(name, ''),
        `Bearer ${hash}`,
      ]),
      ...rows.flatMap(({ id, secret_hash: hash }) => [
        `Bearer tnk_${id}_${Buffer.from(hash, 'hex').toString('base64url')}`,
        `ApiKey tnk_${id}_${hash.slice(0, 43)}`,
        `Bearer tnk_${id}_${hash}`,
        `Bearer ${hash}`,
        `Bearer ${id}`,
      ]),
    ];
    const thief = await start();
    try {
      for (const header of headers) {
        expect((await send(thief, header, 'GET', '/')).status, header).toBe(401);
        clock.advance(15 * 60_000);
      }
      expect((await thief.request('GET', `${ML}/connectors/${ids.mcp}`)).status).toBe(401);
      // A key of the operator's static key is worth nothing where that one is not configured.
      expect((await send(thief, `Bearer ${keys[2]?.whole}`, 'GET', '/')).status).toBe(401);
    } finally {
      await thief.close();
    }
  });

  it('gives its administrator, whom the thief has made, no credential', async () => {
    const password_hash = await createPasswordHasher().hash('the thief chose this');
    await inCopy(async (sql) => {
      await sql.updateTable('users').set({ password_hash }).where('name', '=', 'root').execute();
      await sql.deleteFrom('sign_in_failures').execute();
    });
    const thief = await start();
    const before = [llm.requests.length, mcp.requests.length];
    try {
      const root = basic('root', 'the thief chose this');
      const shown = await ok(thief, root, 'GET', `${ML}/connectors/${ids.mcp}`);
      expect(shown).toMatchObject({ name: 'weather' });
      const answers = [
        await send(thief, root, 'GET', `${ML}/connectors/${ids.mcp}/tools`),
        await send(thief, root, 'POST', `${ML}/models/${ids.model}/_predict`, { parameters: { prompt: 'hello' } }),
        await send(thief, root, 'PUT', `${ML}/connectors/${ids.mcp}`, { name: 'mine' }),
        await send(thief, root, 'GET', `${ML}/connectors/${ids.mcp}`),
        await send(thief, root, 'GET', `${ML}/models/${ids.model}`),
      ];
      expect(
        answers.slice(0, 2).every(({ status }) => status >= 400),
        JSON.stringify(answers),
      ).toBe(true);
      const written = `${JSON.stringify(answers)}${JSON.stringify(shown)}${thief.lines.join('')}`;
      for (const secret of Object.values(CREDENTIALS)) expect(written).not.toContain(secret);
      expect([llm.requests.length, mcp.requests.length]).toEqual(before);
    } finally {
      await thief.close();
    }
  });
});

it('the server itself still works with its own key', async () => {
  const again = await startApp({ folder, config: { trustedPrivateEndpoints: PRIVATE } });
  try {
    const own = `Bearer ${keys[0]?.whole}`;
    await ok(again, own, 'POST', `${ML}/models/${ids.model}/_predict`, { parameters: { prompt: 'hello' } });
    await ok(again, own, 'GET', `${ML}/connectors/${ids.mcp}/tools`);
  } finally {
    await again.close();
  }
});
