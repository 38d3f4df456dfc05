import { ownerId } from '../../identity/ownership.ts';
import type { Message } from '../../llm/types.ts';
import type { FinishedTurn } from '../../memory/conversations.ts';
import { passedRequests, type RunStep } from '../../runs/steps.ts';
import type { MissingTools, WithheldTool } from '../../tools/tool.ts';
import type { People } from '../call-requests.ts';
import { driveRun, type LoopEvent } from '../loop.ts';
import { runToolCalls } from '../tool-calls.ts';
import type { ConversationalDeps, OpenedTurn } from './turn.ts';
import { leave } from './turn-memory.ts';
import type { TurnTools } from './turn-tools.ts';

/** Calls of one model answer that run side by side. */
const CONCURRENCY = 8;
const FAULTY_ANSWERS = 3;

/** Drives a turn to its final answer, from the steps that are recorded already. @throws as `driveRun` */
export async function driveTurn(
  opened: OpenedTurn,
  tools: TurnTools,
  append: (step: RunStep) => Promise<void>,
  emit: (event: LoopEvent) => void,
  deps: Pick<ConversationalDeps, 'modelClient' | 'checker' | 'requests' | 'log'>,
): Promise<void> {
  const { agentId, question, run, settings, signal, callerHeaders } = opened;
  const systemText = (): string => {
    const { missing, withheld } = tools.resolved;
    return [settings.systemPrompt, ...missingNote(missing), ...withheldNote(withheld)].join('\n\n');
  };
  const people = peopleOf(opened, deps.requests);
  await driveRun(opened.recorded, {
    limits: { maxIterations: settings.maxIterations, maxFaultyAnswers: FAULTY_ANSWERS },
    signal,
    append: opened.taskId === undefined ? append : await closingPassed(opened, append, deps),
    emit,
    model: (interactions, offer) => {
      const system = systemText();
      return deps.modelClient.stream(
        settings.modelId,
        settings.llmInterface,
        {
          system,
          history: [...opened.history.flatMap(messagesOf), ...opened.input.earlier],
          question,
          interactions,
          tools: offer.tools ? tools.resolved.tools.map(({ spec }) => spec) : [],
          ...(settings.parallelToolCalls === undefined ? {} : { parallelToolCalls: settings.parallelToolCalls }),
          parameters: { ...settings.parameters, question, system_prompt: system },
        },
        signal,
      );
    },
    runCalls: (turn, calls, record) =>
      runToolCalls(turn, calls, {
        get tools() {
          return tools.resolved.tools;
        },
        get withheld() {
          return tools.resolved.withheld;
        },
        get context() {
          const { principal } = tools;
          return { principal, agentId, runId: run.runId, signal, ...(callerHeaders && { callerHeaders }) };
        },
        renew: tools.renew,
        checker: deps.checker,
        concurrency: settings.parallelToolCalls === false ? 1 : CONCURRENCY,
        resultLimit: settings.resultLimit,
        record,
        ...(people && { people }),
        onProgress: (call, progress) => emit({ type: 'tool_progress', call, progress }),
      }),
  });
}

/** A run that a task shows is attended: whoever may see the task can answer. */
function peopleOf(
  { taskId, run, agentId, principal }: OpenedTurn,
  requests: ConversationalDeps['requests'],
): People | undefined {
  if (taskId === undefined) return undefined;
  const about = { taskId, runId: run.runId, agentId, owner: ownerId(principal) };
  return {
    open: (request) => requests.open({ ...request, ...about }),
    answered: (requestId, signal, withdrawn) => requests.answered(requestId, signal, withdrawn),
  };
}

/** Closes what a person is asked about a call as soon as a step says that the call went on or ended without the answer. */
async function closingPassed(
  { recorded, run }: OpenedTurn,
  append: (step: RunStep) => Promise<void>,
  { requests, log }: Pick<ConversationalDeps, 'requests' | 'log'>,
): Promise<(step: RunStep) => Promise<void>> {
  const steps: RunStep[] = [...recorded];
  const closed = new Set<string>();
  async function close(): Promise<void> {
    const passed = passedRequests(steps).filter((id) => !closed.has(id));
    if (passed.length === 0) return;
    if (!(await leave(`requests of run ${run.runId}`, () => requests.close(passed, PASSED), log))) return;
    for (const id of passed) closed.add(id);
  }
  await close();
  return async (step) => {
    await append(step);
    steps.push(step);
    if (step.kind === 'tool_intent' || step.kind === 'tool_outcome') await close();
  };
}

const PASSED = 'The call it belongs to went on, or ended, without the answer';

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

/** What is denied is no loss to speak of; what is blocked until somebody approves it is. */
function withheldNote(withheld: readonly WithheldTool[]): string[] {
  const blocked = withheld.filter(({ code }) => code !== 'denied_by_policy');
  if (blocked.length === 0) return [];
  const list = blocked.map(({ offeredAs, code }) => `${offeredAs} (${code})`).join(', ');
  return [`Some of your tools must be approved by a person first: ${list}. If the answer needs them, say so.`];
}
