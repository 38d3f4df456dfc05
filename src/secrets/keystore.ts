import { execFile } from 'node:child_process';
import { StartupError } from '../errors.ts';
import { readKeyFile } from './key-file.ts';
import { type Keychain, loadKeytar, readKeychain } from './keychain.ts';
import { readKey } from './master-key.ts';
import type { MasterKey } from './types.ts';

export interface KeystoreOptions {
  /** Default: `env` if `masterKey` is given, else `file`. */
  readonly kind?: 'env' | 'file' | 'command' | 'keychain' | undefined;
  /** Value of TENON_MASTER_KEY: 32 bytes as base64 or 64 hex digits. */
  readonly masterKey?: string | undefined;
  readonly keyFile: string;
  /** The operator's own command line, run by `/bin/sh -c`; prints the key. */
  readonly keyCommand?: string | undefined;
  readonly dataDir: string;
  /** False when the database already holds sealed values: then a key that is not there is a fault. */
  readonly mayCreate: boolean;
  readonly log: { info(fields: object, message: string): void };
  readonly loadKeychain?: () => Promise<Keychain>;
  readonly commandTimeoutMs?: number;
}

const COMMAND_TIMEOUT_MS = 10_000;

/**
 * Finds the master key. The key itself is never logged; where it came from and its id are.
 * @throws StartupError: one line that says what is missing and what to do
 */
export async function openKeystore(options: KeystoreOptions): Promise<MasterKey> {
  const { masterKey, keyFile, dataDir, mayCreate, log } = options;
  const kind = options.kind ?? (masterKey === undefined ? 'file' : 'env');
  if (kind === 'env') {
    if (masterKey === undefined) throw new StartupError('TENON_KEYSTORE=env needs TENON_MASTER_KEY');
    return found(readKey(masterKey, 'TENON_MASTER_KEY'), kind, {}, log);
  }
  if (kind === 'command') {
    const key = readKey(await runCommand(options), 'The output of TENON_KEY_COMMAND');
    return found(key, kind, {}, log);
  }
  if (kind === 'keychain') {
    const text = await readKeychain(options.loadKeychain ?? loadKeytar, mayCreate);
    return found(readKey(text, 'The keychain entry'), kind, {}, log);
  }
  const { text, created } = await readKeyFile(keyFile, dataDir, mayCreate);
  const key = readKey(text, `The key file ${keyFile}`);
  if (created) log.info({ keyFile }, 'master key created: back it up, apart from the database');
  return found(key, kind, { keyFile }, log);
}

function found(key: MasterKey, keystore: string, where: object, log: KeystoreOptions['log']): MasterKey {
  log.info({ keystore, ...where, keyId: key.id }, 'master key found');
  return key;
}

/** Standard output of the command. What it printed is never part of an error. */
function runCommand({ keyCommand, commandTimeoutMs = COMMAND_TIMEOUT_MS }: KeystoreOptions): Promise<string> {
  if (keyCommand === undefined) throw new StartupError('TENON_KEYSTORE=command needs TENON_KEY_COMMAND');
  return new Promise((done, fail) => {
    execFile('/bin/sh', ['-c', keyCommand], { timeout: commandTimeoutMs, maxBuffer: 65_536 }, (error, stdout) => {
      if (error === null) return done(stdout);
      const how = error.killed ? `did not end within ${commandTimeoutMs / 1000} s` : `failed (exit code ${error.code})`;
      fail(new StartupError(`TENON_KEY_COMMAND ${how}: it must print the master key and exit with 0`));
    });
  });
}
