import type { CauseCode } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { ToolSpec } from '../llm/types.ts';
import type { AskPerson, CallProgress, McpCall, PausedCall, PauseWatch } from '../mcp/types.ts';
import type { WithheldCode } from './verdicts.ts';

export interface ToolContext {
  readonly principal: Principal;
  /** The caller's own header fields, for connectors that name them. Never logged. */
  readonly callerHeaders?: Readonly<Record<string, string>>;
  readonly agentId: string;
  readonly runId: string;
  readonly signal: AbortSignal;
  /** Puts the questions of a server to a person; absent where nobody attends the run. */
  readonly ask?: AskPerson;
  /** Goes on with a call that was paused by questions. */
  readonly resume?: McpCall['resume'];
  readonly onProgress?: (progress: CallProgress) => void;
}

/** Which tool of which server it is. */
export interface ToolSource {
  readonly connectorId: string;
  /** The server's own name. */
  readonly tool: string;
  /** Of its definition. */
  readonly hash?: string;
}

/** A tool failure is a result, never an exception. */
export interface ToolResult {
  readonly text: string;
  readonly isError: boolean;
  /** `unknown`: the call was sent and its outcome was never learnt; it is not repeated. */
  readonly outcome: 'ok' | 'error' | 'unknown';
}

/** Anything an agent may call has this shape. */
export interface Tool {
  readonly spec: ToolSpec;
  /** Type as the API names it (`McpStreamableHttpTool`). */
  readonly type: string;
  /** The tool says it is read-only or idempotent: its call may be repeated. */
  readonly repeatable: boolean;
  readonly includeOutput: boolean;
  /** `ask`: each call waits until a person approves it. What is denied is not offered at all. */
  readonly permission: 'allow' | 'ask';
  readonly source?: ToolSource;
  /** Watches whether a paused call of it can go on; absent where its calls are never paused. */
  readonly watchPause?: (paused: PausedCall) => Promise<PauseWatch>;
  /** `argumentsText` is valid JSON of an object that fits `spec.inputSchema`. */
  execute(argumentsText: string, context: ToolContext): Promise<ToolResult>;
}

/** A connector whose tools an agent has to do without. */
export interface MissingTools {
  readonly connectorId: string;
  readonly name: string;
  readonly code: CauseCode | 'not_found';
  readonly message: string;
}

/** A tool that an agent wants and that is there, but must not be called. */
export interface WithheldTool {
  /** The server's own name. */
  readonly tool: string;
  readonly offeredAs: string;
  readonly connectorId: string;
  readonly code: WithheldCode;
  /** A clause about the tool: `it is …`. */
  readonly message: string;
}

export interface ResolvedTools {
  readonly tools: readonly Tool[];
  readonly missing: readonly MissingTools[];
  readonly withheld: readonly WithheldTool[];
  /** What the caller should know about the tools, a sentence each. */
  readonly warnings: readonly string[];
}
