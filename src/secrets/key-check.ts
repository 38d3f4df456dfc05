import { StartupError } from '../errors.ts';
import type { MasterKey, Vault } from './types.ts';

/** What the database remembers about master keys (`store/master-keys.ts`). */
export interface MasterKeyRecords {
  /** Sealed probe text of that key; `undefined` when the key was never used with this database. */
  probe(keyId: string): Promise<string | undefined>;
  /** Whether the database holds anything sealed under some key. */
  any(): Promise<boolean>;
  record(keyId: string, probe: string): Promise<void>;
}

const PROBE = 'tenon';

/**
 * Makes sure that this database was sealed under this key, before anything is served. A database that holds nothing
 * sealed is given the key.
 * @throws StartupError: one line, when it was sealed under another key
 */
export async function verifyMasterKey(deps: {
  vault: Vault;
  master: MasterKey;
  masterKeys: MasterKeyRecords;
}): Promise<void> {
  const { vault, master, masterKeys } = deps;
  const context = { owner: `master-key/${master.id}`, origins: [] };
  const probe = await masterKeys.probe(master.id);
  if (probe !== undefined) {
    if (opens(() => vault.open(probe, context).probe === PROBE)) return;
    throw new StartupError(
      `Master key ${master.id} does not open what this database keeps to check it: the database was changed or damaged; restore it from a backup`,
    );
  }
  if (await masterKeys.any()) {
    throw new StartupError(
      `This database was sealed under another master key than ${master.id}: start with the key it was sealed under (TENON_MASTER_KEY, TENON_KEY_FILE or TENON_KEYSTORE)`,
    );
  }
  await masterKeys.record(master.id, vault.seal({ probe: PROBE }, context));
}

function opens(attempt: () => boolean): boolean {
  try {
    return attempt();
  } catch {
    return false;
  }
}
