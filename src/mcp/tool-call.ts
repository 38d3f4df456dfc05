import { createHash } from 'node:crypto';
import type { Connector } from '../connectors/types.ts';
import { type CauseCode, INVALID_ARGUMENT, UpstreamError } from '../errors.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import { retry } from '../outbound/resilience.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection/connection.ts';
import type { OpenSession } from './connection/session-lifetimes.ts';
import { UNREACHABLE } from './failure-kinds.ts';
import { amended } from './failures.ts';
import type { PausedCalls } from './paused-calls.ts';
import { remedyFor } from './remedies.ts';
import { type InputRequired, type RoundReply, throughRounds } from './session/multi-round.ts';
import { retryOptions } from './session/opening.ts';
import type { DiscoveredTool, McpCall, McpCallResult, PausedCall, PauseWatch } from './types.ts';

const MAX_DEPTH = 1000;

/** The arguments of a call: one object, nested no deeper than 1000 levels. @throws INVALID_ARGUMENT */
export function callArguments(call: McpCall): JsonObject {
  const value = parseJson(call.argumentsText);
  if (!isJsonObject(value)) throw new INVALID_ARGUMENT(`The arguments of tool "${call.tool}" must be a JSON object`);
  let level: JsonValue[] = [value];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) {
      throw new INVALID_ARGUMENT(`The arguments of tool "${call.tool}" are nested deeper than ${MAX_DEPTH} levels`);
    }
    level = level.flatMap((node) =>
      Object.values(node as JsonObject).filter((child) => typeof child === 'object' && child),
    );
  }
  return value;
}

/** SHA-256 of the canonical arguments, hex: equal arguments are recognised without being kept. */
export function argumentsHash(values: JsonObject): string {
  return createHash('sha256').update(canonicalJson(values)).digest('hex');
}

export interface ToolCallDeps {
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly paused: PausedCalls;
}

/** What is needed to make one call, however often it is sent. */
interface Calling {
  readonly connection: Connection;
  readonly connector: Connector;
  readonly call: McpCall;
  readonly values: JsonObject;
  readonly deps: ToolCallDeps;
  /** Time the rounds before have taken, in milliseconds; without the time persons took to answer. */
  spentMs: number;
  /** The server was given the call, in an earlier try or round: no later failure makes that untrue. */
  reached: boolean;
  /** What its tool says of itself, as it was last known. */
  repeatable: boolean;
}

/**
 * Makes one call, over all its rounds of questions. A request is sent again only when it surely was not processed
 * (nothing listened, the rate was limited, the session was unknown) or the tool says that it is read-only or idempotent;
 * else its outcome stays unknown. That holds for each round by itself: answers once given are not asked for again.
 * @throws UpstreamError after the status of the connection has been brought up to date; what `call.ask` threw; CONFLICT
 * where a later round would go to another server than the one that asked
 */
export async function callTool(
  connection: Connection,
  connector: Connector,
  call: McpCall,
  values: JsonObject,
  deps: ToolCallDeps,
): Promise<McpCallResult> {
  const reached = call.resume !== undefined;
  const calling: Calling = { connection, connector, call, values, deps, spentMs: 0, reached, repeatable: false };
  const watch = (paused: PausedCall): Promise<PauseWatch> => deps.paused.watch(connector.id, paused);
  return throughRounds(
    async (reply) => {
      const began = performance.now();
      const outcome = await oneRound(calling, reply);
      calling.spentMs += performance.now() - began;
      calling.reached = true;
      return outcome;
    },
    { ...call, watch },
  );
}

async function oneRound(calling: Calling, reply: RoundReply | undefined): Promise<McpCallResult | InputRequired> {
  const { connection, connector, call, deps } = calling;
  const replaced = new Set<CauseCode>();
  for (;;) {
    const open = await openFor(calling);
    if (reply !== undefined) await deps.paused.requireSame(open.connector, call, reply.server);
    if (connection.current() !== open) continue;
    const definition = open.list.tools.find((tool) => tool.name === call.tool);
    calling.repeatable = isRepeatable(definition);
    try {
      return await retry(() => once(calling, open, definition, reply), {
        ...retryOptions(connector, deps.random),
        ...(call.signal && { signal: call.signal }),
        onRetry: ({ attempt, error }) =>
          deps.log.warn(
            { connectorId: connector.id, tool: call.tool, code: error.code, attempt },
            `MCP call of tool ${call.tool} is sent again: ${error.message}`,
          ),
      });
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      await connection.note(open, error);
      if (replaced.has(error.code) || !goesElsewhere(error, definition)) throw settled(error, calling);
      replaced.add(error.code);
      if (error.code === 'tools_invalid') await connection.relist(open);
    }
  }
}

/**
 * The server no longer knew the session, or found the headers at odds with its definition of the tool: the call was not
 * processed and is made once more, in a new session or by a new definition.
 */
const REFUSED_UNPROCESSED: ReadonlySet<CauseCode> = new Set<CauseCode>(['session_lost', 'tools_invalid']);

async function openFor(calling: Calling): Promise<OpenSession> {
  try {
    return await calling.connection.ensure(calling.connector, calling.call.signal);
  } catch (error) {
    throw error instanceof UpstreamError ? settled(amended(error, { delivered: 'no' }), calling) : error;
  }
}

async function once(
  calling: Calling,
  open: OpenSession,
  definition: DiscoveredTool | undefined,
  reply: RoundReply | undefined,
): Promise<McpCallResult | InputRequired> {
  const { connection, call, values, spentMs, deps } = calling;
  const { clientConfig } = open.connector;
  try {
    const result = await connection.use(open, (session) =>
      session.call({
        tool: definition?.calledAs ?? call.tool,
        inputSchema: definition?.inputSchema ?? { type: 'object' },
        argumentsText: call.argumentsText,
        arguments: values,
        readTimeoutMs: clientConfig.read_timeout * 1000,
        totalTimeoutMs: Math.max(1, clientConfig.max_total_timeout * 1000 - spentMs),
        ...(call.signal && { signal: call.signal }),
        ...(call.onProgress && { onProgress: call.onProgress }),
        ...(call.ask && { ask: call.ask }),
        ...(reply && { reply }),
      }),
    );
    if (!('inputRequired' in result)) return withOutputWarning(result, definition);
    return { inputRequired: { ...result.inputRequired, server: await deps.paused.keyOf(open.connector) } };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    if (error.delivered === 'unknown') calling.reached = true;
    throw error.retryable && !mayRepeat(error, definition) ? amended(error, { retryable: false }) : error;
  }
}

/** Whether one more try in another session, or in another process, may help and does no harm. */
function goesElsewhere(error: UpstreamError, definition: DiscoveredTool | undefined): boolean {
  return REFUSED_UNPROCESSED.has(error.code) || (error.code === 'process_exited' && mayRepeat(error, definition));
}

function mayRepeat(error: UpstreamError, definition: DiscoveredTool | undefined): boolean {
  return error.delivered === 'no' || isRepeatable(definition);
}

function isRepeatable(definition: DiscoveredTool | undefined): boolean {
  return definition?.annotations?.readOnlyHint === true || definition?.annotations?.idempotentHint === true;
}

/**
 * A call that may have run is told apart from one that surely did not. A refusal of its last request, which the server
 * answered, keeps its own code.
 */
function settled(error: UpstreamError, { reached, repeatable, connection }: Calling): UpstreamError {
  const next = connection.current() === undefined ? connection.health.dueAt() : undefined;
  const planned = next === undefined ? error : amended(error, { nextRetryTime: next });
  if (!reached) return planned;
  const answered = error.delivered === 'no' && !UNREACHABLE.has(error.code);
  if (repeatable || answered) return amended(planned, { delivered: 'unknown' });
  return amended(planned, {
    delivered: 'unknown',
    code: 'outcome_unknown',
    message: `${error.message}${/[.!?]$/.test(error.message) ? '' : '.'} The outcome of the call is unknown; it is not sent again.`,
    remedy: remedyFor('outcome_unknown'),
  });
}

function withOutputWarning(result: McpCallResult, definition: DiscoveredTool | undefined): McpCallResult {
  const promised = definition?.outputSchema !== undefined && !result.isError;
  if (!promised || result.structuredContent !== undefined) return result;
  const warning = `tool "${definition.name}" has an outputSchema but gave no structuredContent`;
  return { ...result, warnings: [...result.warnings, warning] };
}
