import type { CauseCode } from '../errors.ts';
import { UpstreamError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { ConnectionStateRow, ConnectionStore } from '../store/connections.ts';
import type { Logger } from '../telemetry/logger.ts';
import { remedyFor } from './failures.ts';
import type { ConnectionError, ConnectionStatus, LeftOutTool } from './types.ts';

/** The last known truth about one connection. Times are epoch milliseconds. */
export interface ConnectionRecord {
  readonly status: ConnectionStatus;
  readonly since: number;
  readonly lastSuccessTime?: number;
  readonly protocolVersion?: string;
  readonly error?: ConnectionError;
  readonly warnings: readonly string[];
  readonly leftOut: readonly LeftOutTool[];
  /** While `connecting`: what was before. A failure that only repeats keeps the time it began. */
  readonly before?: { readonly status: ConnectionStatus; readonly since: number };
}

type Facts = Partial<Omit<ConnectionRecord, 'status' | 'since' | 'before'>>;

export interface ConnectionStates {
  /** From memory, else as an earlier process left it: what was open then is idle now. */
  get(connectorId: string): Promise<ConnectionRecord>;
  /** Changes the status at once and stores it with its transition. A store that fails is logged. */
  move(connectorId: string, to: ConnectionStatus, cause: string, facts?: Facts): Promise<void>;
  /** Changes facts without a change of status. */
  amend(connectorId: string, facts: Facts): Promise<void>;
  forget(connectorId: string): Promise<void>;
}

export interface ConnectionStatesDeps {
  readonly connections: ConnectionStore;
  readonly log: Logger;
  readonly now: () => number;
}

/** The state machine of all connections: in memory for the reader, in the store for the next process. */
export function createConnectionStates({ connections, log, now }: ConnectionStatesDeps): ConnectionStates {
  const startTime = now();
  const records = new Map<string, ConnectionRecord>();
  const loading = new Map<string, Promise<ConnectionRecord>>();
  const writes = new Map<string, Promise<void>>();

  async function load(connectorId: string): Promise<ConnectionRecord> {
    const row = await connections.state(connectorId);
    const record = row === undefined ? fresh(startTime) : afterRestart(row, startTime);
    const moved = records.get(connectorId);
    if (moved) return moved;
    records.set(connectorId, record);
    return record;
  }

  async function get(connectorId: string): Promise<ConnectionRecord> {
    const known = records.get(connectorId);
    if (known) return known;
    let promise = loading.get(connectorId);
    if (promise === undefined) {
      promise = load(connectorId).finally(() => loading.delete(connectorId));
      loading.set(connectorId, promise);
    }
    return promise;
  }

  /** Writes of one connection are stored in the order in which they happened. */
  function write(connectorId: string, save: () => Promise<void>): Promise<void> {
    const write = (writes.get(connectorId) ?? Promise.resolve()).then(save).catch((error: unknown) => {
      log.error({ err: error, connectorId }, 'MCP connection state was not stored');
    });
    writes.set(connectorId, write);
    return write.finally(() => {
      if (writes.get(connectorId) === write) writes.delete(connectorId);
    });
  }

  return {
    get,
    async move(connectorId, to, cause, facts = {}) {
      const before = records.get(connectorId) ?? (await get(connectorId));
      const time = now();
      const { error: _old, before: settled, ...kept } = before;
      const stays = before.status === to;
      const repeats = settled !== undefined && settled.status === to && FAILURES.has(to);
      const keepsError = to === 'connecting' && facts.error === undefined && before.error !== undefined;
      const record: ConnectionRecord = {
        ...kept,
        ...(keepsError && { error: before.error }),
        ...facts,
        status: to,
        since: stays ? before.since : repeats ? settled.since : time,
        ...(to === 'connecting' && { before: settled ?? { status: before.status, since: before.since } }),
      };
      records.set(connectorId, record);
      const transition = stays
        ? undefined
        : {
            from: before.status,
            to,
            cause,
            time,
            ...(facts.error && { code: facts.error.code, message: facts.error.message }),
          };
      await write(connectorId, () => connections.save(rowOf(connectorId, record), transition));
    },
    async amend(connectorId, facts) {
      const record = { ...(records.get(connectorId) ?? (await get(connectorId))), ...facts };
      records.set(connectorId, record);
      await write(connectorId, () => connections.save(rowOf(connectorId, record)));
    },
    async forget(connectorId) {
      records.delete(connectorId);
      await write(connectorId, () => connections.deleteOf(connectorId));
    },
  };
}

function fresh(since: number): ConnectionRecord {
  return { status: 'idle', since, warnings: [], leftOut: [] };
}

const FAILURES: ReadonlySet<ConnectionStatus> = new Set<ConnectionStatus>(['failed', 'auth_required']);

/** No session outlives its process: only failures, what a person switched off, and the facts beside them still hold. */
function afterRestart(row: ConnectionStateRow, startTime: number): ConnectionRecord {
  const { error, before, ...facts } = row.body as unknown as Omit<ConnectionRecord, 'status' | 'since'>;
  const settled = before ?? { status: row.status as ConnectionStatus, since: row.since };
  const holds = FAILURES.has(settled.status) || settled.status === 'disabled';
  return {
    ...facts,
    ...(FAILURES.has(settled.status) && error && { error }),
    status: holds ? settled.status : 'idle',
    since: holds ? settled.since : startTime,
  };
}

function rowOf(connectorId: string, record: ConnectionRecord): ConnectionStateRow {
  const { status, since, ...body } = record;
  return { connectorId, status, since, body: body as unknown as JsonObject };
}

/** A failure as the status shows it. */
export function connectionError(error: unknown, nextRetryTime: number | undefined): ConnectionError {
  const upstream = error instanceof UpstreamError ? error : undefined;
  const code: CauseCode = upstream?.code ?? 'address_refused';
  const next = nextRetryTime ?? upstream?.nextRetryTime;
  return {
    code,
    message: error instanceof Error ? error.message : String(error),
    remedy: upstream?.remedy ?? remedyFor(code),
    ...(upstream?.attempts !== undefined && { attempts: upstream.attempts }),
    ...(next !== undefined && { next_retry_time: next }),
  };
}
