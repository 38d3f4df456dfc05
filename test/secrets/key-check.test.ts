import { describe, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import { type MasterKeyRecords, verifyMasterKey } from '../../src/secrets/key-check.ts';
import { newKeyText, readKey } from '../../src/secrets/master-key.ts';
import { createVault } from '../../src/secrets/vault.ts';

function database(): MasterKeyRecords & { probes: Map<string, string> } {
  const probes = new Map<string, string>();
  return {
    probes,
    probe: async (keyId) => probes.get(keyId),
    any: async () => probes.size > 0,
    record: async (keyId, probe) => void probes.set(keyId, probe),
  };
}

function start(masterKeys: MasterKeyRecords, master = readKey(newKeyText(), 'test')) {
  return verifyMasterKey({ vault: createVault(master), master, masterKeys });
}

describe('master key of a database', () => {
  it('is recorded for an empty database and accepted from then on', async () => {
    const masterKeys = database();
    const master = readKey(newKeyText(), 'test');
    await start(masterKeys, master);
    expect([...masterKeys.probes.keys()]).toEqual([master.id]);
    const recorded = masterKeys.probes.get(master.id);
    await start(masterKeys, master);
    expect(masterKeys.probes.get(master.id)).toBe(recorded);
  });

  it('must be the one the database was sealed under', async () => {
    const masterKeys = database();
    await start(masterKeys);
    const other = readKey(newKeyText(), 'test');
    const error = await start(masterKeys, other).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(StartupError);
    expect(error.message).toBe(
      `This database was sealed under another master key than ${other.id}: start with the key it was sealed under (TENON_MASTER_KEY, TENON_KEY_FILE or TENON_KEYSTORE)`,
    );
    expect(masterKeys.probes.size).toBe(1);
  });

  it('must open its probe', async () => {
    const masterKeys = database();
    const master = readKey(newKeyText(), 'test');
    const context = { owner: `master-key/${master.id}`, origins: [] };
    for (const probe of ['v1.x', createVault(master).seal({ probe: 'other' }, context)]) {
      masterKeys.probes.set(master.id, probe);
      const error = await start(masterKeys, master).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(StartupError);
      expect(error.message).toContain(`Master key ${master.id} does not open`);
    }
  });
});
