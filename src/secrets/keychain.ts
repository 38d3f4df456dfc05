import { StartupError } from '../errors.ts';
import { newKeyText } from './master-key.ts';

/** The part of keytar that is used. */
export interface Keychain {
  getPassword(service: string, account: string): Promise<string | null>;
  setPassword(service: string, account: string, password: string): Promise<void>;
}

const SERVICE = 'tenon';
const ACCOUNT = 'master-key';
const REMEDY = 'use TENON_KEYSTORE=file, env or command where there is no desktop session';

/** Loads keytar, which is optional: nothing else needs it. */
export async function loadKeytar(): Promise<Keychain> {
  const name: string = 'keytar';
  const module = (await import(name)) as { default?: Keychain } & Keychain;
  return module.default ?? module;
}

/**
 * Key text from the keychain of the operating system, made there at first if `mayCreate` is set.
 * @throws StartupError when keytar cannot be loaded, the keychain does not answer, or the key is not there
 */
export async function readKeychain(load: () => Promise<Keychain>, mayCreate: boolean): Promise<string> {
  const keychain = await attempt('keytar cannot be loaded', load);
  const known = await attempt('the keychain does not answer', () => keychain.getPassword(SERVICE, ACCOUNT));
  if (known !== null) return known;
  if (!mayCreate) {
    throw new StartupError(
      `The database holds sealed credentials, and the keychain has no entry ${SERVICE}/${ACCOUNT}: restore it, or set TENON_KEYSTORE to where the key is`,
    );
  }
  await attempt('the keychain takes no entry', () => keychain.setPassword(SERVICE, ACCOUNT, newKeyText()));
  const stored = await attempt('the keychain does not answer', () => keychain.getPassword(SERVICE, ACCOUNT));
  if (stored === null) throw new StartupError(`TENON_KEYSTORE=keychain: the keychain forgets its entry; ${REMEDY}`);
  return stored;
}

async function attempt<T>(failure: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const cause = error instanceof Error ? error.message.split('\n')[0] : 'unknown failure';
    throw new StartupError(`TENON_KEYSTORE=keychain: ${failure} (${cause}); ${REMEDY}`);
  }
}
