import { PostgresDialect, type PostgresPoolClient, sql } from 'kysely';
import type { PoolClient } from 'pg';
import { STORE_BUSY } from '../errors.ts';
import type { Engine, StoreLog } from './engine.ts';

const INT8 = 20;
const CONNECT_TIMEOUT_MS = 10_000;
const UNIQUE_VIOLATION = '23505';
/** serialization_failure, deadlock_detected: the server has undone the transaction and asks to repeat it. */
const REPEATABLE = new Set(['40001', '40P01']);
/**
 * SQLSTATE classes 08 (connection), 53 (out of disk, memory or connections), 57P (the server ends the session) and
 * 25006 (a replica that only reads), and what sockets and the driver say when the connection ends.
 */
const UNAVAILABLE = /^(?:08...|53...|57P0.|25006|E(?:CONNRESET|CONNABORTED|CONNREFUSED|PIPE|TIMEDOUT|HOSTUNREACH))$/;
const CUT_OFF = /^(?:Connection terminated|Client (?:has encountered a connection error|was closed))/;

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
      return checkedOut(await pool.connect(), log);
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

/**
 * A connection while it is used. The pool listens to idle connections only: one that breaks now is reported here, fails
 * its statements with STORE_BUSY and never goes back to the pool.
 */
function checkedOut(client: PoolClient, log: StoreLog): PostgresPoolClient {
  let failure: Error | undefined;
  let running = '';
  const fail = (error: unknown): Error => {
    failure ??= unavailable(error, running);
    return failure;
  };
  const onError = (error: Error): void => {
    log.warn({ error: error.message }, 'A connection to PostgreSQL was lost while it was used');
    fail(error);
  };
  client.on('error', onError);
  const query = async (text: string, values: readonly unknown[]) => {
    running = text;
    try {
      return await client.query(text, values.map(withoutNul));
    } catch (error) {
      throw failure === undefined && !isUnavailable(error) ? error : fail(error);
    } finally {
      running = '';
    }
  };
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: (discard?: boolean) => {
      client.off('error', onError);
      client.release(discard === true || failure !== undefined);
    },
  };
}

function isUnavailable(error: unknown): boolean {
  return UNAVAILABLE.test(sqlState(error)) || (error instanceof Error && CUT_OFF.test(error.message));
}

function unavailable(error: unknown, statement: string): Error {
  const outcome = /^commit\b/i.test(statement)
    ? 'The connection ended while the change was being committed: read it again to see whether it was stored'
    : 'Nothing was stored; try again';
  return new STORE_BUSY(`The PostgreSQL database is not available: ${reason(error)}. ${outcome}`);
}

/** PostgreSQL's TEXT cannot hold U+0000, which SQLite's can; it becomes U+FFFD there. */
function withoutNul(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}
