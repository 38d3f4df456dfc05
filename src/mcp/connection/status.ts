import type { Connector, DeclaredServer } from '../../connectors/types.ts';
import { type CauseCode, UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { ConnectionStateRow, ConnectionStore } from '../../store/connections.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { remedyFor } from '../remedies.ts';
import type { ConnectionChange, ConnectionError, ConnectionStatus, LeftOutTool } from '../types.ts';

/** The last known truth about one connection. Times are epoch milliseconds. */
export interface ConnectionRecord {
  readonly status: ConnectionStatus;
  readonly since: number;
  readonly lastSuccessTime?: number;
  readonly protocolVersion?: string;
  readonly error?: ConnectionError;
  readonly warnings: readonly string[];
  readonly leftOut: readonly LeftOutTool[];
  /** Of the server the tools were read from, as `addressOf` tells it. */
  readonly address?: string;
  /** Its state began with this process, and ends with it. */
  readonly declared?: true;
  /** While it is tried: what was before. A failure that only repeats keeps the time it began. */
  readonly before?: { readonly status: ConnectionStatus; readonly since: number };
}

type Facts = Partial<Omit<ConnectionRecord, 'status' | 'since' | 'before' | 'declared'>>;

export interface ConnectionStates {
  /**
   * From memory, else as an earlier process left it: what was open then is idle now. Of a declared server as its
   * declaration says, whatever was before.
   */
  get(connectorId: string): Promise<ConnectionRecord>;
  /** The same of several, by their ids. */
  ofAll(connectors: readonly Connector[]): Promise<ReadonlyMap<string, ConnectionRecord>>;
  /**
   * Changes the status at once and stores it with its transition. A store that fails is logged. `trying`: it is on its way
   * to another attempt, whatever that status.
   */
  move(
    connectorId: string,
    to: ConnectionStatus,
    cause: string,
    facts?: Facts,
    options?: { readonly trying: boolean },
  ): Promise<void>;
  /** Changes facts without a change of status. */
  amend(connectorId: string, facts: Facts): Promise<void>;
  /** What was known is about another server: only the status stays. */
  renew(connectorId: string): Promise<void>;
  forget(connectorId: string): Promise<void>;
  /** Settles when all that happened to it so far is stored. */
  stored(connectorId: string): Promise<void>;
}

export interface ConnectionStatesDeps {
  readonly connections: Pick<ConnectionStore, 'save' | 'state' | 'states' | 'deleteOf'>;
  /** What the configuration file says of it; `undefined` for a connector of the API. */
  readonly declared?: (connectorId: string) => Promise<DeclaredServer | undefined>;
  /** Told of each change of status once it is stored. */
  readonly onChange?: (connectorId: string, change: ConnectionChange) => void;
  readonly log: Logger;
  readonly now: () => number;
}

/** The state machine of all connections: in memory for the reader, in the store for the next process. */
export function createConnectionStates(deps: ConnectionStatesDeps): ConnectionStates {
  const { connections, log, now, declared = async () => undefined, onChange } = deps;
  const startTime = now();
  const records = new Map<string, ConnectionRecord>();
  const loading = new Map<string, Promise<ConnectionRecord>>();
  const writes = new Map<string, Promise<void>>();
  let forgotten = 0;

  async function load(connectorId: string): Promise<ConnectionRecord> {
    const [row, declaration] = await Promise.all([connections.state(connectorId), declared(connectorId)]);
    return begin(connectorId, row, declaration);
  }

  function begin(
    connectorId: string,
    row: ConnectionStateRow | undefined,
    declaration: DeclaredServer | undefined,
  ): ConnectionRecord {
    const moved = records.get(connectorId);
    if (moved) return moved;
    const record = declaration ? asDeclared(declaration, row, startTime) : afterRestart(row, startTime);
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

  function unread(connectors: readonly Connector[]): Connector[] {
    return connectors.filter(({ id }) => !records.has(id));
  }

  async function keep(connectorId: string, record: ConnectionRecord): Promise<void> {
    records.set(connectorId, record);
    await write(connectorId, () => connections.save(rowOf(connectorId, record), undefined, knowing(record)));
  }

  return {
    get,
    async ofAll(connectors) {
      for (let missing = unread(connectors); missing.length > 0; missing = unread(connectors)) {
        const asked = forgotten;
        const rows = new Map((await connections.states()).map((row) => [row.connectorId, row]));
        if (asked === forgotten) for (const { id, declared } of missing) begin(id, rows.get(id), declared);
      }
      return new Map(await Promise.all(connectors.map(async ({ id }) => [id, await get(id)] as const)));
    },
    async move(connectorId, to, cause, facts = {}, { trying } = { trying: to === 'connecting' }) {
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
        ...(trying && { before: settled ?? { status: before.status, since: before.since } }),
      };
      records.set(connectorId, record);
      const failure = facts.error && { code: facts.error.code, message: facts.error.message };
      const change: ConnectionChange = { from: before.status, to, cause, time, ...failure };
      const knows = before.status === 'disabled' ? { overrides: true } : knowing(record);
      await write(connectorId, () => connections.save(rowOf(connectorId, record), stays ? undefined : change, knows));
      if (!stays) onChange?.(connectorId, change);
    },
    async amend(connectorId, facts) {
      await keep(connectorId, { ...(records.get(connectorId) ?? (await get(connectorId))), ...facts });
    },
    async renew(connectorId) {
      const { status, since, declared } = records.get(connectorId) ?? (await get(connectorId));
      await keep(connectorId, { ...fresh(since), status, ...(declared && { declared }) });
    },
    stored: async (connectorId) => writes.get(connectorId),
    async forget(connectorId) {
      forgotten += 1;
      records.delete(connectorId);
      await write(connectorId, () => connections.deleteOf(connectorId));
    },
  };
}

/** What a person switched off through another process is not switched on by what this one did not know. */
function knowing({ status, declared }: ConnectionRecord): { overrides: boolean } {
  return { overrides: declared === true || status === 'disabled' };
}

function fresh(since: number): ConnectionRecord {
  return { status: 'idle', since, warnings: [], leftOut: [] };
}

const FAILURES: ReadonlySet<ConnectionStatus> = new Set<ConnectionStatus>(['failed', 'auth_required']);

/** No session outlives its process: only failures, what a person switched off, and the facts beside them still hold. */
function afterRestart(row: ConnectionStateRow | undefined, startTime: number): ConnectionRecord {
  if (row === undefined) return fresh(startTime);
  const { error, before, declared, ...facts } = row.body as unknown as Omit<ConnectionRecord, 'status' | 'since'>;
  if (declared) return fresh(startTime);
  const own = { status: row.status as ConnectionStatus, since: row.since };
  const settled = row.status === 'connecting' ? (before ?? own) : own;
  const holds = FAILURES.has(settled.status) || settled.status === 'disabled';
  return {
    ...facts,
    ...(FAILURES.has(settled.status) && error && { error: withoutPlan(error) }),
    status: holds ? settled.status : 'idle',
    since: holds ? settled.since : startTime,
  };
}

/** Nothing of an earlier process holds, but where the tools were read from. */
function asDeclared(
  { enabled, problem }: DeclaredServer,
  row: ConnectionStateRow | undefined,
  startTime: number,
): ConnectionRecord {
  const { address } = (row?.body ?? {}) as { readonly address?: string };
  return {
    ...fresh(startTime),
    declared: true,
    ...(address !== undefined && { address }),
    status: !enabled ? 'disabled' : problem ? 'failed' : 'idle',
    ...(problem && enabled && { error: problem }),
  };
}

/** Whoever planned the next attempt is gone. */
function withoutPlan({ next_retry_time: _planned, ...error }: ConnectionError): ConnectionError {
  return error;
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
