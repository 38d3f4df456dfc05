import { createHash } from 'node:crypto';
import type { Connector } from '../connectors/types.ts';
import { type CauseCode, INVALID_ARGUMENT, UpstreamError } from '../errors.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import { retry } from '../outbound/resilience.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection/connection.ts';
import type { OpenSession } from './connection/session-lifetimes.ts';
import { amended } from './failures.ts';
import { type InputRequired, type RoundReply, throughRounds } from './session/multi-round.ts';
import { retryOptions } from './session/opening.ts';
import type { DiscoveredTool, McpCall, McpCallResult } from './types.ts';

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

/** What is needed to make one call, however often it is sent. */
interface Calling {
  readonly connection: Connection;
  readonly connector: Connector;
  readonly call: McpCall;
  readonly values: JsonObject;
  readonly deps: { random: () => number; log: Logger };
  /** Time the rounds before have taken, in milliseconds; without the time persons took to answer. */
  spentMs: number;
}

/**
 * Makes one call, over all its rounds of questions. A request is sent again only when it surely was not processed
 * (nothing listened, the rate was limited, the session was unknown) or the tool says that it is read-only or idempotent;
 * else its outcome stays unknown. That holds for each round by itself: answers once given are not asked for again.
 * @throws UpstreamError after the status of the connection has been brought up to date; what `call.ask` threw
 */
export async function callTool(
  connection: Connection,
  connector: Connector,
  call: McpCall,
  values: JsonObject,
  deps: { random: () => number; log: Logger },
): Promise<McpCallResult> {
  const calling: Calling = { connection, connector, call, values, deps, spentMs: 0 };
  return throughRounds(async (reply) => {
    const began = performance.now();
    const outcome = await oneRound(calling, reply);
    calling.spentMs += performance.now() - began;
    return outcome;
  }, call);
}

async function oneRound(calling: Calling, reply: RoundReply | undefined): Promise<McpCallResult | InputRequired> {
  const { connection, connector, call, deps } = calling;
  const replaced = new Set<CauseCode>();
  for (;;) {
    const open = await openFor(connection, connector, call.signal);
    if (connection.current() !== open) continue;
    const definition = open.list.tools.find((tool) => tool.name === call.tool);
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
      if (replaced.has(error.code) || !goesElsewhere(error, definition)) throw settled(error, isRepeatable(definition));
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

async function openFor(
  connection: Connection,
  connector: Connector,
  signal: AbortSignal | undefined,
): Promise<OpenSession> {
  try {
    return await connection.ensure(connector, signal);
  } catch (error) {
    throw error instanceof UpstreamError ? amended(error, { delivered: 'no' }) : error;
  }
}

async function once(
  { connection, call, values, spentMs }: Calling,
  open: OpenSession,
  definition: DiscoveredTool | undefined,
  reply: RoundReply | undefined,
): Promise<McpCallResult | InputRequired> {
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
    return 'inputRequired' in result ? result : withOutputWarning(result, definition);
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
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

/** A call that may have run is told apart from one that surely did not. */
function settled(error: UpstreamError, repeatable: boolean): UpstreamError {
  if (error.delivered === 'no' || repeatable) return error;
  return amended(error, {
    code: 'outcome_unknown',
    message: `${error.message}${/[.!?]$/.test(error.message) ? '' : '.'} The outcome of the call is unknown; it is not sent again.`,
    remedy: 'Find out on the side of the server whether the call took effect before it is made again.',
  });
}

function withOutputWarning(result: McpCallResult, definition: DiscoveredTool | undefined): McpCallResult {
  const promised = definition?.outputSchema !== undefined && !result.isError;
  if (!promised || result.structuredContent !== undefined) return result;
  const warning = `tool "${definition.name}" has an outputSchema but gave no structuredContent`;
  return { ...result, warnings: [...result.warnings, warning] };
}
