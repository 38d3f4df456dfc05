import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import type { Keychain } from '../../src/secrets/keychain.ts';
import { type KeystoreOptions, openKeystore } from '../../src/secrets/keystore.ts';

const KEY = Buffer.alloc(32, 7);
const KEY_ID = '4bb06f8e4e3a7715';

let root: string;
let lines: { fields: Record<string, unknown>; message: string }[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tenon-keys-'));
  lines = [];
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function options(more: Partial<KeystoreOptions> = {}): KeystoreOptions {
  return {
    keyFile: join(root, 'config/tenon/master.key'),
    dataDir: join(root, 'data'),
    mayCreate: true,
    log: { info: (fields, message) => void lines.push({ fields: { ...fields }, message }) },
    ...more,
  };
}

async function refusal(more: Partial<KeystoreOptions>): Promise<string> {
  const error = await openKeystore(options(more)).then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(StartupError);
  expect(error.message).not.toContain('\n');
  return error.message;
}

describe('master key from the environment', () => {
  it.each([
    ['base64', KEY.toString('base64')],
    ['base64 without padding', KEY.toString('base64').replace('=', '')],
    ['base64url', Buffer.alloc(32, 0xff).toString('base64url')],
    ['hex', KEY.toString('hex')],
    ['upper-case hex with a line break', `${KEY.toString('hex').toUpperCase()}\n`],
  ])('reads %s', async (_, masterKey) => {
    const { id, key } = await openKeystore(options({ masterKey }));
    expect(key).toHaveLength(32);
    expect(id).toMatch(/^[0-9a-f]{16}$/);
    expect(existsSync(join(root, 'config'))).toBe(false);
  });

  it('tells the key by an id that does not show it, in the log too', async () => {
    const { id, key } = await openKeystore(options({ masterKey: KEY.toString('hex') }));
    expect({ id, key }).toEqual({ id: KEY_ID, key: KEY });
    expect(lines).toEqual([{ fields: { keystore: 'env', keyId: KEY_ID }, message: 'master key found' }]);
  });

  it.each(['', 'short', Buffer.alloc(31).toString('base64'), Buffer.alloc(33).toString('base64'), 'z'.repeat(64)])(
    'refuses %j without repeating it',
    async (masterKey) => {
      expect(await refusal({ masterKey })).toBe(
        'TENON_MASTER_KEY must hold 32 random bytes as base64 or as 64 hex digits; make them with: openssl rand -base64 32',
      );
    },
  );

  it('needs the variable when env is asked for', async () => {
    expect(await refusal({ kind: 'env' })).toBe('TENON_KEYSTORE=env needs TENON_MASTER_KEY');
  });
});

describe('master key file', () => {
  it('is made once, 0600 in a directory of 0700, and its path is logged', async () => {
    const { keyFile } = options();
    const first = await openKeystore(options());
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(statSync(join(root, 'config/tenon')).mode & 0o777).toBe(0o700);
    expect(lines).toEqual([
      { fields: { keyFile }, message: 'master key created: back it up, apart from the database' },
      { fields: { keystore: 'file', keyFile, keyId: first.id }, message: 'master key found' },
    ]);
    expect(JSON.stringify(lines)).not.toContain(readFileSync(keyFile, 'utf8').trim());
    lines = [];
    const second = await openKeystore(options({ mayCreate: false }));
    expect(second).toEqual(first);
    expect(lines.map(({ message }) => message)).toEqual(['master key found']);
    expect(readdirSync(join(root, 'config/tenon'))).toEqual(['master.key']);
  });

  it('is one key for all that start at once', async () => {
    const keys = await Promise.all(Array.from({ length: 12 }, () => openKeystore(options())));
    expect(new Set(keys.map(({ id }) => id)).size).toBe(1);
    expect(readdirSync(join(root, 'config/tenon'))).toEqual(['master.key']);
    expect(lines.filter(({ message }) => message.startsWith('master key created'))).toHaveLength(1);
  });

  it('is not replaced by a new one when the database already needs it', async () => {
    const { keyFile } = options();
    expect(await refusal({ mayCreate: false })).toBe(
      `The database holds sealed credentials, and their key file ${keyFile} does not exist: restore it, or point TENON_KEY_FILE or TENON_MASTER_KEY at that key`,
    );
    expect(existsSync(join(root, 'config'))).toBe(false);
  });

  it.each([0o640, 0o604, 0o660, 0o644, 0o601])('is refused with mode %o', async (mode) => {
    const { keyFile } = options();
    await openKeystore(options());
    chmodSync(keyFile, mode);
    expect(await refusal({})).toBe(
      `The key file ${keyFile} is open to other users (mode 0${mode.toString(8)}): run chmod 600 ${keyFile}, and replace the key if somebody else may have read it`,
    );
  });

  it('may be read-only', async () => {
    await openKeystore(options());
    chmodSync(options().keyFile, 0o400);
    expect(await openKeystore(options())).toBeDefined();
  });

  it('is refused inside the data directory, also through a link, and nothing is made there', async () => {
    const dataDir = join(root, 'data');
    mkdirSync(dataDir);
    symlinkSync(dataDir, join(root, 'alias'));
    for (const keyFile of [join(dataDir, 'master.key'), join(dataDir, 'a/b.key'), join(root, 'alias/master.key')]) {
      expect(await refusal({ keyFile })).toBe(
        `The key file ${keyFile} is inside the data directory ${dataDir}, so that one copy would hold both: set TENON_KEY_FILE to a path outside`,
      );
    }
    expect(readdirSync(dataDir)).toEqual([]);
  });

  it('may lie beside the data directory, with a name that begins like it', async () => {
    expect(await openKeystore(options({ keyFile: join(root, 'data-key') }))).toBeDefined();
    expect(await openKeystore(options({ keyFile: join(root, 'data/../..key') }))).toBeDefined();
  });

  it('says which file holds no key', async () => {
    const { keyFile } = options();
    mkdirSync(join(root, 'config/tenon'), { recursive: true });
    writeFileSync(keyFile, 'CANARY-no-key', { mode: 0o600 });
    expect(await refusal({})).toBe(
      `The key file ${keyFile} must hold 32 random bytes as base64 or as 64 hex digits; make them with: openssl rand -base64 32`,
    );
  });

  it('says why it cannot be made', async () => {
    writeFileSync(join(root, 'config'), 'a file where a directory should be');
    expect(await refusal({})).toMatch(
      /^The key file .*master\.key cannot be used \((stat|mkdir) ENOTDIR\): make it readable/,
    );
  });
});

describe('master key from a command', () => {
  it('is what the command prints', async () => {
    const keyCommand = `printf '%s\\n' ${KEY.toString('base64')}`;
    expect(await openKeystore(options({ kind: 'command', keyCommand }))).toEqual({ id: KEY_ID, key: KEY });
    expect(lines).toEqual([{ fields: { keystore: 'command', keyId: KEY_ID }, message: 'master key found' }]);
  });

  it.each([
    [undefined, 'TENON_KEYSTORE=command needs TENON_KEY_COMMAND'],
    ['echo CANARY; exit 3', 'TENON_KEY_COMMAND failed (exit code 3): it must print the master key and exit with 0'],
    [
      'echo CANARY',
      'The output of TENON_KEY_COMMAND must hold 32 random bytes as base64 or as 64 hex digits; make them with: openssl rand -base64 32',
    ],
  ])('%j: says what is wrong, not what was printed', async (keyCommand, message) => {
    expect(await refusal({ kind: 'command', keyCommand })).toBe(message);
  });

  it('is not waited for without end', async () => {
    expect(await refusal({ kind: 'command', keyCommand: 'exec sleep 60', commandTimeoutMs: 200 })).toBe(
      'TENON_KEY_COMMAND did not end within 0.2 s: it must print the master key and exit with 0',
    );
  });
});

describe('master key in the keychain', () => {
  function memoryKeychain(entries = new Map<string, string>()): Keychain & { entries: Map<string, string> } {
    return {
      entries,
      getPassword: async (service, account) => entries.get(`${service}/${account}`) ?? null,
      setPassword: async (service, account, password) => void entries.set(`${service}/${account}`, password),
    };
  }

  it('is made at first and found again', async () => {
    const keychain = memoryKeychain();
    const chain = { kind: 'keychain', loadKeychain: async () => keychain } as const;
    const first = await openKeystore(options(chain));
    expect([...keychain.entries.keys()]).toEqual(['tenon/master-key']);
    expect(await openKeystore(options({ ...chain, mayCreate: false }))).toEqual(first);
  });

  it('is not made anew when the database already needs it', async () => {
    const keychain = memoryKeychain();
    expect(await refusal({ kind: 'keychain', mayCreate: false, loadKeychain: async () => keychain })).toBe(
      'The database holds sealed credentials, and the keychain has no entry tenon/master-key: restore it, or set TENON_KEYSTORE to where the key is',
    );
    expect(keychain.entries.size).toBe(0);
  });

  it('says so when it does not answer, cannot be loaded, or forgets', async () => {
    const end = 'use TENON_KEYSTORE=file, env or command where there is no desktop session';
    const silent = { ...memoryKeychain(), getPassword: () => Promise.reject(new Error('no D-Bus\nstack')) };
    expect(await refusal({ kind: 'keychain', loadKeychain: async () => silent })).toBe(
      `TENON_KEYSTORE=keychain: the keychain does not answer (no D-Bus); ${end}`,
    );
    expect(await refusal({ kind: 'keychain', loadKeychain: () => Promise.reject(new Error('no module')) })).toBe(
      `TENON_KEYSTORE=keychain: keytar cannot be loaded (no module); ${end}`,
    );
    const forgetful = { ...memoryKeychain(), setPassword: async () => {} };
    expect(await refusal({ kind: 'keychain', loadKeychain: async () => forgetful })).toBe(
      `TENON_KEYSTORE=keychain: the keychain forgets its entry; ${end}`,
    );
  });
});
