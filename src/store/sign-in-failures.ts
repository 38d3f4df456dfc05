import type { Database } from './database.ts';

export interface SignInFailures {
  readonly failures: number;
  /** Epoch milliseconds. */
  readonly lastTime: number;
}

/** Who failed to sign in how often: `name:ann`, `peer:10.0.0.7`. */
export interface SignInFailureStore {
  get(subject: string): Promise<SignInFailures | undefined>;
  save(subject: string, failures: SignInFailures): Promise<void>;
  forget(subject: string): Promise<void>;
  /** Removes those whose last failure is older than this time. */
  forgetBefore(time: number): Promise<void>;
}

export function createSignInFailureStore(database: Database): SignInFailureStore {
  const { kysely } = database;
  return {
    async get(subject) {
      const row = await kysely
        .selectFrom('sign_in_failures')
        .select(['failures', 'last_time'])
        .where('subject', '=', subject)
        .executeTakeFirst();
      return row && { failures: row.failures, lastTime: row.last_time };
    },

    async save(subject, { failures, lastTime }) {
      const row = { failures, last_time: lastTime };
      await database.write((transaction) =>
        transaction
          .insertInto('sign_in_failures')
          .values({ subject, ...row })
          .onConflict((conflict) => conflict.column('subject').doUpdateSet(row))
          .execute(),
      );
    },

    async forget(subject) {
      await database.write((transaction) =>
        transaction.deleteFrom('sign_in_failures').where('subject', '=', subject).execute(),
      );
    },

    async forgetBefore(time) {
      await database.write((transaction) =>
        transaction.deleteFrom('sign_in_failures').where('last_time', '<', time).execute(),
      );
    },
  };
}
