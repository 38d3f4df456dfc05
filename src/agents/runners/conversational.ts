import { setMaxListeners } from 'node:events';
import { isCatalogueError, UpstreamError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { JsonObject } from '../../json.ts';
import type { Message, ModelClient } from '../../llm/types.ts';
import type { Conversation, Conversations, FinishedTurn, OpenTurn, Trace } from '../../memory/conversations.ts';
import type { Journal } from '../../runs/journal.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import type { Database } from '../../store/database.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ArgumentChecker } from '../../tools/arguments.ts';
import type { ToolRegistry } from '../../tools/registry.ts';
import type { MissingTools, ResolvedTools, Tool } from '../../tools/tool.ts';
import type { AgentInput } from '../input.ts';
import { driveRun, type LoopEvent } from '../loop.ts';
import { wellFormed } from '../text.ts';
import { runToolCalls } from '../tool-calls.ts';
import { additionalInfo, conversationalReply, stepText } from './conversational-reply.ts';
import { type TurnSettings, turnSettings } from './conversational-settings.ts';

export interface ConversationalDeps {
  readonly modelClient: ModelClient;
  readonly registry: Pick<ToolRegistry, 'resolve'>;
  readonly conversations: Conversations;
  readonly journal: Pick<Journal, 'begin'>;
  readonly database: Pick<Database, 'write'>;
  readonly checker: ArgumentChecker;
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
  /** Sees the run while it happens. */
  readonly emit?: (event: LoopEvent) => void;
}

export interface TurnResult {
  readonly body: JsonObject;
  /** What the caller should know beside the answer, a sentence each. */
  readonly warnings: readonly string[];
}

/** Calls of one model answer that run side by side. */
const CONCURRENCY = 8;
const FAULTY_ANSWERS = 3;

/**
 * Answers one question in a conversation: contract 7.2 and 7.4. Turns of one memory run one after another. The question is
 * stored before the run, every step as it ends, the answer (or `Agent execution failed: …`) at the end.
 * @throws INVALID_ARGUMENT, RESOURCE_NOT_FOUND (memory or message), the error of the model or of a required connector.
 */
export async function runConversationalTurn(request: TurnRequest, deps: ConversationalDeps): Promise<TurnResult> {
  const { principal, agent, input, signal } = request;
  const { conversations } = deps;
  const settings = turnSettings(agent, input);
  // Each call under way listens to it; they leave when they end.
  setMaxListeners(0, signal);
  const conversation = await conversations.open(principal, input.memoryId, input.question ?? '');
  const { memoryId, unsaved } = conversation;
  return conversations.exclusively(memoryId, signal, async () => {
    const before = input.regenerateInteractionId
      ? await conversations.message(memoryId, input.regenerateInteractionId)
      : undefined;
    const parent = input.parentInteractionId
      ? await conversations.message(memoryId, input.parentInteractionId)
      : undefined;
    const question = wellFormed(input.question ?? before?.input ?? '');
    const history = unsaved ? [] : await conversations.history(memoryId, settings.historyLimit, before ?? parent);
    const begun = await begin(request, { conversation, question, messageId: parent?.id }, deps);
    return answerTurn({ ...request, settings, memoryId, question, history, ...begun }, deps);
  });
}

interface BegunTurn {
  readonly turn: OpenTurn;
  readonly run: Awaited<ReturnType<Journal['begin']>>;
}

interface OpenedTurn extends TurnRequest, BegunTurn {
  readonly settings: TurnSettings;
  readonly memoryId: string;
  readonly question: string;
  readonly history: readonly FinishedTurn[];
}

/** The memory (when it is new), the question and the run are stored together. */
function begin(
  { principal, agentId, input }: TurnRequest,
  start: { conversation: Conversation; question: string; messageId: string | undefined },
  { conversations, journal, database }: ConversationalDeps,
): Promise<BegunTurn> {
  const { conversation, question, messageId } = start;
  return database.write(async (within) => {
    const turn = await conversations.begin(conversation, question, { messageId, within });
    const run = await journal.begin(
      {
        agentId,
        memoryId: conversation.memoryId,
        messageId: turn.messageId,
        principal: principal.id,
        request: { question, parameters: { ...input.parameters } },
      },
      within,
    );
    return { turn, run };
  });
}

async function answerTurn(opened: OpenedTurn, deps: ConversationalDeps): Promise<TurnResult> {
  const { agentId, memoryId, run, settings, turn } = opened;
  const { messageId } = turn;
  try {
    const resolved = await deps.registry.resolve({
      agentId,
      agent: opened.agent,
      parameters: settings.parameters,
      ...(settings.selectedTools ? { selected: settings.selectedTools } : {}),
      caller: { principal: opened.principal, ...(opened.callerHeaders && { headers: opened.callerHeaders }) },
      signal: opened.signal,
    });
    const { tools, missing } = resolved;
    const steps: RunStep[] = [];
    let kept = false;
    /** A step and what memory keeps of it are written side by side, in one transaction where the store can. */
    const append = async (step: RunStep): Promise<void> => {
      const shown = [...steps, step];
      const [, remembered] = await Promise.all([run.append(step), remember(step, shown, tools, opened, deps.log)]);
      steps.push(step);
      if (step.kind === 'final_answer') kept = remembered;
    };
    await drive(opened, resolved, run.runId, append, deps);
    const { modelId, verbose, includeTokenUsage } = settings;
    const body = conversationalReply({ memoryId, messageId, modelId, steps, tools, verbose, includeTokenUsage });
    const lost = kept ? [] : [`The answer could not be stored in memory ${memoryId}`];
    return { body, warnings: [...missing.map(warningText), ...lost] };
  } catch (error) {
    const cause = opened.signal.aborted ? 'the request was cancelled' : shownCause(error);
    await Promise.all([
      leave(`run ${run.runId}`, () => run.finish('failed'), deps.log),
      leave(`message ${messageId}`, () => turn.finish(`Agent execution failed: ${cause}`, {}), deps.log),
    ]);
    throw error;
  }
}

async function drive(
  opened: OpenedTurn,
  { tools, missing }: ResolvedTools,
  runId: string,
  append: (step: RunStep) => Promise<void>,
  { modelClient, checker }: ConversationalDeps,
): Promise<void> {
  const { principal, agentId, question, settings, signal, callerHeaders } = opened;
  const system = [settings.systemPrompt, ...missingNote(missing)].join('\n\n');
  const specs = tools.map((tool) => tool.spec);
  await driveRun([], {
    limits: { maxIterations: settings.maxIterations, maxFaultyAnswers: FAULTY_ANSWERS },
    signal,
    append,
    emit: opened.emit ?? (() => undefined),
    model: (interactions, offer) =>
      modelClient.stream(
        settings.modelId,
        settings.llmInterface,
        {
          system,
          history: [...opened.history.flatMap(messagesOf), ...opened.input.earlier],
          question,
          interactions,
          tools: offer.tools ? specs : [],
          ...(settings.parallelToolCalls === undefined ? {} : { parallelToolCalls: settings.parallelToolCalls }),
          parameters: { ...settings.parameters, question, system_prompt: system },
        },
        signal,
      ),
    runCalls: (turn, calls, record) =>
      runToolCalls(turn, calls, {
        tools,
        checker,
        context: { principal, agentId, runId, signal, ...(callerHeaders && { callerHeaders }) },
        concurrency: settings.parallelToolCalls === false ? 1 : CONCURRENCY,
        resultLimit: settings.resultLimit,
        record,
      }),
  });
}

function messagesOf({ question, answer }: FinishedTurn): Message[] {
  return [
    { role: 'user', text: question },
    { role: 'assistant', text: answer, toolCalls: [] },
  ];
}

/** Names and codes only: what a broken server said must not become an instruction. */
function missingNote(missing: readonly MissingTools[]): string[] {
  if (missing.length === 0) return [];
  const list = missing.map(({ name, code }) => `those of "${name.replace(/[^\w .-]/g, '_')}" (${code})`).join(', ');
  return [
    `Some of your tools cannot be reached now: ${list}. If the answer needs them, say that they are missing and why.`,
  ];
}

function warningText({ connectorId, name, code, message }: MissingTools): string {
  return `The tools of connector "${name}" (${connectorId}) are missing (${code}): ${message}`;
}

/** The answer, or a trace of the step; whether it could be stored. */
async function remember(
  step: RunStep,
  steps: readonly RunStep[],
  tools: readonly Tool[],
  { question, settings, turn }: OpenedTurn,
  log: Logger,
): Promise<boolean> {
  if (step.kind === 'final_answer') {
    return leave(`message ${turn.messageId}`, () => turn.finish(step.text, additionalInfo(steps, tools)), log);
  }
  const entry = settings.keepTraces ? traceOf(step, steps, question) : undefined;
  return entry === undefined || leave(`trace of message ${turn.messageId}`, () => turn.trace(entry), log);
}

function traceOf(step: RunStep, steps: readonly RunStep[], question: string): Trace | undefined {
  if (step.kind === 'model_answer') {
    return { origin: 'LLM', input: question, response: stepText(step.text, step.toolCalls) };
  }
  if (step.kind !== 'tool_outcome') return undefined;
  const call = foldSteps(steps).turns[step.turn]?.calls[step.index]?.call;
  return { origin: step.offeredName, input: call?.arguments ?? '{}', response: step.text };
}

/** What was written for callers; anything else is a bug, and its text belongs into the log. */
function shownCause(error: unknown): string {
  return isCatalogueError(error) || error instanceof UpstreamError
    ? error.message
    : 'internal error, the log of the server has the details';
}

/** Does what a run can do without; a failure is logged. */
async function leave(what: string, work: () => Promise<unknown>, log: Logger): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    log.warn({ err: error }, `${what} was not stored`);
    return false;
  }
}
