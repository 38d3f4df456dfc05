import { FORBIDDEN, isCatalogueError, UpstreamError } from '../errors.ts';
import type { Authorization } from '../identity/types.ts';
import type { JsonObject } from '../json.ts';
import type { McpSessions } from '../mcp/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CallGuard } from './call-guard.ts';
import { resultText } from './mcp-result.ts';
import { offeredSchema } from './offered-schema.ts';
import type { Tool, ToolContext, ToolResult } from './tool.ts';

export interface McpToolDeps {
  readonly sessions: Pick<McpSessions, 'call' | 'watchPause'>;
  readonly authorization: Pick<Authorization, 'refused'>;
  readonly log: Logger;
}

export interface McpToolDefinition {
  readonly offeredAs: string;
  readonly connectorId: string;
  readonly fallbackConnectorId?: string;
  /** The server's own name of the tool. */
  readonly tool: string;
  /** Of the definition that is offered. */
  readonly hash?: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly annotations: JsonObject | undefined;
  readonly includeOutput: boolean;
  readonly permission: Tool['permission'];
  /** Asked before each call. */
  readonly guard: CallGuard;
}

const MAX_DESCRIPTION = 1024;

/**
 * A tool of an MCP server as an agent calls it. A call that surely was not processed goes to the fallback connector, when
 * there is one; otherwise every failure is a result that says what happened. Questions are put to a person for the connector
 * itself only: a call that waits for answers goes on where it began.
 */
export function createMcpTool(definition: McpToolDefinition, { sessions, authorization, log }: McpToolDeps): Tool {
  const { annotations, connectorId, fallbackConnectorId, hash, tool } = definition;
  const repeatable = annotations?.readOnlyHint === true || annotations?.idempotentHint === true;

  async function call(target: string, argumentsText: string, context: ToolContext): Promise<ToolResult> {
    if (context.principal.access.deniesTool(target, tool)) {
      const reason = `You don't have permission to call the tool ${tool} of connector ${target}.`;
      authorization.refused(context.principal, 'connector:use', { reason, connectorId: target, tool });
      throw new FORBIDDEN(reason);
    }
    const refused = await definition.guard(target, context);
    if (refused !== undefined) {
      log.warn({ agentId: context.agentId, connectorId: target, tool }, `MCP call refused: ${refused}`);
      return { text: `Error: ${refused}`, isError: true, outcome: 'error' };
    }
    const { resume, ...rest } = context;
    const result = await sessions.call(target, { tool, argumentsText, ...rest, ...(resume && { resume }) });
    const { isError } = result;
    return { text: resultText(result), isError, outcome: isError ? 'error' : 'ok' };
  }

  return {
    spec: {
      name: definition.offeredAs,
      description: shortened(definition.description),
      inputSchema: offeredSchema(definition.inputSchema),
    },
    type: 'McpStreamableHttpTool',
    repeatable,
    includeOutput: definition.includeOutput,
    permission: definition.permission,
    source: { connectorId, tool, ...(hash !== undefined && { hash }) },
    watchPause: (paused) => sessions.watchPause(connectorId, paused),
    async execute(argumentsText, context) {
      try {
        return await call(connectorId, argumentsText, context);
      } catch (error) {
        const untouched = error instanceof UpstreamError && error.delivered === 'no' && context.resume === undefined;
        if (fallbackConnectorId === undefined || !untouched || context.signal.aborted) {
          return failureResult(error, repeatable, context.signal, log);
        }
        log.warn({ connectorId, fallbackConnectorId, tool }, `MCP call of ${tool} goes to the fallback connector`);
      }
      try {
        const { ask: _ask, ...unasked } = context;
        return await call(fallbackConnectorId, argumentsText, unasked);
      } catch (error) {
        return failureResult(error, repeatable, context.signal, log);
      }
    },
  };
}

const FIND_OUT = 'Find out what happened before you call it again.';
const UNKNOWN = `The outcome is unknown: the call was sent and may have been carried out; it was not repeated. ${FIND_OUT}`;

function failureResult(error: unknown, repeatable: boolean, signal: AbortSignal, log: Logger): ToolResult {
  const unknown = (text: string, ending = UNKNOWN): ToolResult =>
    repeatable
      ? { text: `Error: ${text}`, isError: true, outcome: 'error' }
      : { text: `Error: ${text}${/[.!?…]$/.test(text) ? '' : '.'} ${ending}`, isError: true, outcome: 'unknown' };
  if (signal.aborted) return unknown('the call was cancelled.');
  if (error instanceof UpstreamError) {
    if (error.code === 'outcome_unknown') return unknown(error.message, FIND_OUT);
    if (error.delivered === 'unknown') return unknown(error.message);
    return { text: `Error: ${error.message}`, isError: true, outcome: 'error' };
  }
  if (isCatalogueError(error)) return { text: `Error: ${error.message}`, isError: true, outcome: 'error' };
  log.error({ err: error }, 'MCP call failed inside the platform');
  return unknown('the call failed inside the platform.');
}

function shortened(description: string): string {
  if (description.length <= MAX_DESCRIPTION) return description;
  return `${description.slice(0, MAX_DESCRIPTION - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
