import type { Database } from './database.ts';

export interface MasterKeys {
  /** Sealed probe text of that key; `undefined` when the key was never used with this database. */
  probe(keyId: string): Promise<string | undefined>;
  /** Whether the database holds anything sealed under some key. */
  any(): Promise<boolean>;
  record(keyId: string, probe: string): Promise<void>;
}

/** Which master keys this database was used with. */
export function createMasterKeys(database: Database, { now = Date.now }: { now?: () => number } = {}): MasterKeys {
  const { kysely } = database;
  return {
    async probe(keyId) {
      const row = await kysely.selectFrom('master_keys').select('probe').where('key_id', '=', keyId).executeTakeFirst();
      return row?.probe;
    },

    async any() {
      const key = await kysely.selectFrom('master_keys').select('key_id').limit(1).executeTakeFirst();
      const credential = await kysely.selectFrom('credentials').select('owner').limit(1).executeTakeFirst();
      return key !== undefined || credential !== undefined;
    },

    async record(keyId, probe) {
      await database.write((transaction) =>
        transaction
          .insertInto('master_keys')
          .values({ key_id: keyId, probe, created_time: now() })
          .onConflict((conflict) => conflict.column('key_id').doNothing())
          .execute(),
      );
    },
  };
}
