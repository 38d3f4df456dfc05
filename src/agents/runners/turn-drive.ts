import { ownerId } from '../../identity/ownership.ts';
import type { Message } from '../../llm/types.ts';
import type { FinishedTurn } from '../../memory/conversations.ts';
import type { RunStep } from '../../runs/steps.ts';
import type { MissingTools, ResolvedTools, WithheldTool } from '../../tools/tool.ts';
import type { People } from '../call-requests.ts';
import { driveRun, type LoopEvent } from '../loop.ts';
import { runToolCalls } from '../tool-calls.ts';
import type { ConversationalDeps, OpenedTurn } from './turn.ts';

/** Calls of one model answer that run side by side. */
const CONCURRENCY = 8;
const FAULTY_ANSWERS = 3;

/** Drives a turn to its final answer, from the steps that are recorded already. @throws as `driveRun` */
export async function driveTurn(
  opened: OpenedTurn,
  { tools, missing, withheld }: ResolvedTools,
  append: (step: RunStep) => Promise<void>,
  emit: (event: LoopEvent) => void,
  deps: Pick<ConversationalDeps, 'modelClient' | 'checker' | 'requests'>,
): Promise<void> {
  const { principal, agentId, question, run, settings, signal, callerHeaders } = opened;
  const system = [settings.systemPrompt, ...missingNote(missing), ...withheldNote(withheld)].join('\n\n');
  const specs = tools.map((tool) => tool.spec);
  const people = peopleOf(opened, deps.requests);
  await driveRun(opened.recorded, {
    limits: { maxIterations: settings.maxIterations, maxFaultyAnswers: FAULTY_ANSWERS },
    signal,
    append,
    emit,
    model: (interactions, offer) =>
      deps.modelClient.stream(
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
        withheld,
        checker: deps.checker,
        context: { principal, agentId, runId: run.runId, signal, ...(callerHeaders && { callerHeaders }) },
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
    answered: (requestId, signal) => requests.answered(requestId, signal),
  };
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

/** What is denied is no loss to speak of; what is blocked until somebody approves it is. */
function withheldNote(withheld: readonly WithheldTool[]): string[] {
  const blocked = withheld.filter(({ code }) => code !== 'denied_by_policy');
  if (blocked.length === 0) return [];
  const list = blocked.map(({ offeredAs, code }) => `${offeredAs} (${code})`).join(', ');
  return [`Some of your tools must be approved by a person first: ${list}. If the answer needs them, say so.`];
}
