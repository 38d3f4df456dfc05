import type { Principal } from '../../identity/principal.ts';
import type { JsonObject } from '../../json.ts';
import type { ModelClient } from '../../llm/types.ts';
import type { Conversations, FinishedTurn, OpenTurn } from '../../memory/conversations.ts';
import type { Journal, RunLog } from '../../runs/journal.ts';
import type { RunRequests } from '../../runs/requests.ts';
import type { RunStep } from '../../runs/steps.ts';
import type { Database } from '../../store/database.ts';
import type { EventSink } from '../../telemetry/events.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ArgumentChecker } from '../../tools/arguments.ts';
import type { ToolRegistry } from '../../tools/registry.ts';
import type { AgentInput } from '../input.ts';
import type { LoopEvent } from '../loop.ts';
import type { Standing } from '../standing.ts';
import type { TurnSettings } from './conversational-settings.ts';

export interface ConversationalDeps {
  readonly modelClient: ModelClient;
  readonly registry: Pick<ToolRegistry, 'resolve'>;
  readonly conversations: Conversations;
  readonly journal: Pick<Journal, 'begin'>;
  readonly requests: Pick<RunRequests, 'open' | 'answered' | 'close'>;
  readonly database: Pick<Database, 'write'>;
  readonly checker: ArgumentChecker;
  readonly events: EventSink;
  readonly log: Logger;
}

export interface TurnRequest {
  readonly principal: Principal;
  readonly agentId: string;
  readonly agent: JsonObject;
  readonly input: AgentInput;
  /** The caller's own header fields, for connectors that name them. Never stored. */
  readonly callerHeaders?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Looks up the caller and the agent again, after the run waited. @throws why it cannot go on */
  readonly renewed?: () => Promise<Standing>;
  /** Sees the run while it happens. */
  readonly emit?: (event: LoopEvent) => void;
}

export interface TurnResult {
  readonly body: JsonObject;
  /** What the caller should know beside the answer, a sentence each. */
  readonly warnings: readonly string[];
}

/** A turn whose question and run are stored. */
export interface OpenedTurn extends TurnRequest {
  readonly turn: OpenTurn;
  readonly run: RunLog;
  readonly settings: TurnSettings;
  readonly memoryId: string;
  readonly question: string;
  readonly history: readonly FinishedTurn[];
  /** Steps of a process that drove the run before; none for a new one. */
  readonly recorded: readonly RunStep[];
  /** The task that shows the run: a person attends it. */
  readonly taskId?: string;
}
