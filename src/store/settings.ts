import type { Database } from './database.ts';

export type SettingScope = 'persistent' | 'transient';

export interface SettingStore {
  all(): Promise<{ scope: SettingScope; name: string; value: string }[]>;
  /** `null` removes. One transaction for all changes. */
  apply(changes: readonly { scope: SettingScope; name: string; value: string | null }[]): Promise<void>;
  /** Transient settings end with the server's process on SQLite. */
  clearTransient(): Promise<void>;
}

/** Cluster settings as texts, by scope and full flat name. */
export function createSettingStore(database: Database, { now = Date.now }: { now?: () => number } = {}): SettingStore {
  const { kysely } = database;
  return {
    async all() {
      const rows = await kysely
        .selectFrom('settings')
        .select(['scope', 'name', 'value'])
        .orderBy('scope')
        .orderBy('name')
        .execute();
      return rows.map((row) => ({ ...row, scope: row.scope as SettingScope }));
    },

    apply(changes) {
      return database.write(async (transaction) => {
        for (const { scope, name, value } of changes) {
          if (value === null) {
            await transaction.deleteFrom('settings').where('scope', '=', scope).where('name', '=', name).execute();
            continue;
          }
          const row = { value, last_updated_time: now() };
          await transaction
            .insertInto('settings')
            .values({ scope, name, ...row })
            .onConflict((conflict) => conflict.columns(['scope', 'name']).doUpdateSet(row))
            .execute();
        }
      });
    },

    async clearTransient() {
      await database.write((transaction) =>
        transaction.deleteFrom('settings').where('scope', '=', 'transient').execute(),
      );
    },
  };
}
