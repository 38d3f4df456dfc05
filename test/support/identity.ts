import type { PasswordHasher } from '../../src/identity/passwords.ts';
import { createIdentity, type Identity, type IdentityDeps } from '../../src/identity/service.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { createApiKeyStore } from '../../src/store/api-keys.ts';
import type { Database } from '../../src/store/database.ts';
import { createIdentityStore } from '../../src/store/identity.ts';
import { createSignInFailureStore } from '../../src/store/sign-in-failures.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { sqliteDatabase } from './databases.ts';

export interface TestIdentity extends Identity {
  readonly database: Database;
  /** What was audited, oldest first. */
  readonly audited: AuditEntry[];
  readonly lines: string[];
  /** Another process on the same database, without anything in its memory. */
  again(given?: Partial<IdentityDeps>): Promise<Identity>;
  close(): Promise<void>;
}

/** A hasher that costs nothing and counts: for tests of what surrounds the hash. */
export function countingHasher(): PasswordHasher & { readonly calls: { hash: number; verify: number } } {
  const calls = { hash: 0, verify: 0 };
  return {
    calls,
    async hash(password) {
      calls.hash += 1;
      return `plain:${password}`;
    },
    async verify(password, stored) {
      calls.verify += 1;
      return stored === `plain:${password}`;
    },
  };
}

/** The identity room on an empty database of its own, or on a given one. */
export async function startIdentity(
  given: Partial<IdentityDeps> & { database?: Database } = {},
): Promise<TestIdentity> {
  const { database: lent, ...options } = given;
  const fresh = lent === undefined ? await sqliteDatabase() : undefined;
  const database = lent ?? fresh?.database;
  if (database === undefined) throw new Error('there is no database');
  const lines: string[] = [];
  const audited: AuditEntry[] = [];
  const redactor = createRedactor();
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const outbound = createOutbound({ log });
  const clock = options.now === undefined ? {} : { now: options.now };
  const again = (other: Partial<IdentityDeps> = {}): Promise<Identity> =>
    createIdentity({
      store: createIdentityStore(database, clock),
      keys: createApiKeyStore(database, clock),
      failures: createSignInFailureStore(database),
      outbound,
      audit: { record: async (entry) => void audited.push(entry) },
      redactor,
      log,
      ...options,
      ...other,
    });
  return {
    ...(await again()),
    database,
    audited,
    lines,
    again,
    async close() {
      await outbound.close();
      await fresh?.dispose();
    },
  };
}

/** The value of an `Authorization` header. */
export function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
}
