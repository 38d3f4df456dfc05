import { setMaxListeners } from 'node:events';
import type { Principal } from '../../identity/principal.ts';
import type { JsonObject } from '../../json.ts';
import type { Message, ModelClient } from '../../llm/types.ts';
import type { Conversations, FinishedTurn, OpenTurn, Trace } from '../../memory/conversations.ts';
import type { Journal } from '../../runs/journal.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ArgumentChecker } from '../../tools/arguments.ts';
import type { ToolRegistry } from '../../tools/registry.ts';
import type { MissingTools, ResolvedTools } from '../../tools/tool.ts';
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
  readonly checker: ArgumentChecker;
  readonly log: Logger;
}

export interface TurnRequest {
  readonly principal: Principal;
  readonly agentId: string;
  readonly agent: JsonObject;
  readonly input: AgentInput;
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
  const memoryId = await conversations.open(principal, input.memoryId, input.question ?? '');
  return conversations.exclusively(memoryId, signal, async () => {
    const before = input.regenerateInteractionId
      ? await conversations.message(memoryId, input.regenerateInteractionId)
      : undefined;
    const parent = input.parentInteractionId
      ? await conversations.message(memoryId, input.parentInteractionId)
      : undefined;
    const question = wellFormed(input.question ?? before?.input ?? '');
    const history = await conversations.history(memoryId, settings.historyLimit, before ?? parent);
    const turn = await conversations.begin(memoryId, question, parent?.id);
    return answerTurn({ ...request, settings, memoryId, question, history, turn }, deps);
  });
}

interface OpenedTurn extends TurnRequest {
  readonly settings: TurnSettings;
  readonly memoryId: string;
  readonly question: string;
  readonly history: readonly FinishedTurn[];
  readonly turn: OpenTurn;
}

async function answerTurn(opened: OpenedTurn, deps: ConversationalDeps): Promise<TurnResult> {
  const { agentId, memoryId, principal, question, settings, turn } = opened;
  const run = await deps.journal.begin({
    agentId,
    memoryId,
    messageId: turn.messageId,
    principal: principal.id,
    request: { question, parameters: { ...opened.input.parameters } },
  });
  const steps: RunStep[] = [];
  const append = async (step: RunStep): Promise<void> => {
    await run.append(step);
    steps.push(step);
    if (settings.keepTraces) await trace(step, steps, opened, deps.log);
  };
  try {
    const resolved = await deps.registry.resolve({
      agentId,
      agent: opened.agent,
      parameters: settings.parameters,
      ...(settings.selectedTools ? { selected: settings.selectedTools } : {}),
      signal: opened.signal,
    });
    const final = await drive(opened, resolved, run.runId, append, deps);
    await leave(`run ${run.runId}`, () => run.finish('completed'), deps.log);
    const kept = await leave(
      `message ${turn.messageId}`,
      () => turn.finish(final, additionalInfo(steps, resolved.tools)),
      deps.log,
    );
    const { modelId, verbose, includeTokenUsage } = settings;
    const { messageId } = turn;
    const { tools } = resolved;
    const body = conversationalReply({ memoryId, messageId, modelId, steps, tools, verbose, includeTokenUsage });
    const lost = kept ? [] : [`The answer could not be stored in memory ${memoryId}`];
    return { body, warnings: [...resolved.missing.map(warningText), ...lost] };
  } catch (error) {
    const cause = opened.signal.aborted ? 'the request was cancelled' : (error as Error).message;
    await leave(`run ${run.runId}`, () => run.finish('failed'), deps.log);
    await leave(`message ${turn.messageId}`, () => turn.finish(`Agent execution failed: ${cause}`, {}), deps.log);
    throw error;
  }
}

async function drive(
  opened: OpenedTurn,
  { tools, missing }: ResolvedTools,
  runId: string,
  append: (step: RunStep) => Promise<void>,
  { modelClient, checker }: ConversationalDeps,
): Promise<string> {
  const { principal, agentId, question, settings, signal } = opened;
  const system = [settings.systemPrompt, ...missingNote(missing)].join('\n\n');
  const specs = tools.map((tool) => tool.spec);
  const final = await driveRun([], {
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
        context: { principal, agentId, runId, signal },
        concurrency: settings.parallelToolCalls === false ? 1 : CONCURRENCY,
        resultLimit: settings.resultLimit,
        record,
      }),
  });
  return final.text;
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

async function trace(
  step: RunStep,
  steps: readonly RunStep[],
  { question, turn }: OpenedTurn,
  log: Logger,
): Promise<void> {
  const entry = traceOf(step, steps, question);
  if (entry) await leave(`trace of message ${turn.messageId}`, () => turn.trace(entry), log);
}

function traceOf(step: RunStep, steps: readonly RunStep[], question: string): Trace | undefined {
  if (step.kind === 'model_answer') {
    return { origin: 'LLM', input: question, response: stepText(step.text, step.toolCalls) };
  }
  if (step.kind !== 'tool_outcome') return undefined;
  const call = foldSteps(steps).turns[step.turn]?.calls[step.index]?.call;
  return { origin: step.offeredName, input: call?.arguments ?? '{}', response: step.text };
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
