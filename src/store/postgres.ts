import { PostgresDialect, type PostgresPoolClient, sql } from 'kysely';
import type { PoolClient } from 'pg';
import { STORE_BUSY } from '../errors.ts';
import type { Engine, StoreLog } from './engine.ts';

const INT8 = 20;
const CONNECT_TIMEOUT_MS = 10_000;
const UNIQUE_VIOLATION = '23505';
/** serialization_failure, deadlock_detected: the server has undone the transaction and asks to repeat it. */
const REPEATABLE = new Set(['40001', '40P01']);

/** @param url `postgres://user:password@host:port/database`; nothing connects before the first statement. */
export async function openPostgres(url: string, { log }: { log: StoreLog }): Promise<Engine> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'tenon',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
        oid === INT8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
    },
  });
  pool.on('error', (error) => log.warn({ error: error.message }, 'An idle connection to PostgreSQL was lost'));

  async function connect(): Promise<PostgresPoolClient> {
    try {
      return withoutNul(await pool.connect());
    } catch (error) {
      throw new STORE_BUSY(
        `The PostgreSQL database cannot be reached: ${reason(error)}. Nothing was stored; try again`,
      );
    }
  }

  return {
    kind: 'postgres',
    dialect: new PostgresDialect({ pool: { connect, end: () => pool.end() } }),
    oneWriter: false,
    isBusy: (error) => REPEATABLE.has(sqlState(error)),
    isUniqueViolation: (error) => sqlState(error) === UNIQUE_VIOLATION,
    async script(connection, text) {
      await sql.raw(text).execute(connection);
    },
  };
}

function sqlState(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : '';
}

function reason(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reason).join(', ');
  return (error as Error).message;
}

/** PostgreSQL's TEXT cannot hold U+0000, which SQLite's can; it becomes U+FFFD there. */
function withoutNul(client: PoolClient): PostgresPoolClient {
  const clean = (value: unknown): unknown =>
    typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
  const query = (text: string, values: readonly unknown[]) => client.query(text, values.map(clean));
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: (discard?: boolean) => client.release(discard),
  };
}
