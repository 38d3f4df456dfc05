import { setMaxListeners } from 'node:events';
import { wellFormed } from '../../json.ts';
import type { Conversation, OpenTurn } from '../../memory/conversations.ts';
import type { RunLog } from '../../runs/journal.ts';
import type { RunStep } from '../../runs/steps.ts';
import type { Unit } from '../../store/database.ts';
import type { MessageRow } from '../../store/memory.ts';
import { type TurnSettings, turnSettings } from './conversational-settings.ts';
import type { ConversationalDeps, TurnRequest, TurnResult } from './turn.ts';
import { answerTurn } from './turn-answer.ts';
import { tracesOf } from './turn-memory.ts';
import { storedRequest } from './turn-request.ts';

/** Makes the task that shows a run, in the transaction that stores the run. */
export type MakeTask = (ids: { memoryId: string; messageId: string }, within: Unit) => Promise<string>;

/** A turn that goes on without its caller. */
export interface AttendedTurn {
  readonly taskId: string;
  readonly memoryId: string;
  readonly messageId: string;
  readonly run: RunLog;
  /** Answers it, after the turns of this memory that came before. @throws as `answerTurn` */
  answer(): Promise<TurnResult>;
}

/** Where a turn takes place, and what is asked. */
interface Place {
  readonly conversation: Conversation;
  readonly question: string;
  /** The message that is taken up again. */
  readonly parent: MessageRow | undefined;
  /** Only turns before it are remembered. */
  readonly before: MessageRow | undefined;
}

/**
 * Answers one question in a conversation: contract 7.2 and 7.4. Turns of one memory run one after another. The question is
 * stored before the run, every step as it ends, the answer (or `Agent execution failed: …`) at the end.
 * @throws INVALID_ARGUMENT, RESOURCE_NOT_FOUND (memory or message), the error of the model or of a required connector.
 */
export async function runConversationalTurn(request: TurnRequest, deps: ConversationalDeps): Promise<TurnResult> {
  const { agent, input, signal } = request;
  const settings = turnSettings(agent, input);
  // Each call under way listens to it; they leave when they end.
  setMaxListeners(0, signal);
  const conversation = await openConversation(request, deps);
  const { memoryId } = conversation;
  return deps.conversations.exclusively(memoryId, signal, async (waited) => {
    const current = await upToDate(request, settings, waited);
    const place = await locate(request, conversation, deps);
    const history = await historyOf(place, current.settings.historyLimit, deps);
    const begun = await deps.database.write(async (within) => {
      const turn = await openTurn(place, deps, within);
      return { turn, run: await openRun(request, place, turn, deps, within) };
    });
    const { question } = place;
    return answerTurn({ ...current, ...begun, memoryId, question, history, recorded: [] }, deps);
  });
}

/**
 * Begins a turn that goes on without its caller: the question, the run and the task that shows it are stored at once,
 * whatever the memory is busy with. `passesHeaders`: only this process can drive it.
 * @throws INVALID_ARGUMENT, RESOURCE_NOT_FOUND (memory or message)
 */
export async function beginAttendedTurn(
  request: TurnRequest,
  { makeTask, passesHeaders }: { makeTask: MakeTask; passesHeaders: boolean },
  deps: ConversationalDeps,
): Promise<AttendedTurn> {
  const { agent, input, signal } = request;
  const settings = turnSettings(agent, input);
  setMaxListeners(0, signal);
  const place = await locate(request, await openConversation(request, deps), deps);
  const { conversation, question } = place;
  const { memoryId } = conversation;
  const begun = await deps.database.write(async (within) => {
    const turn = await openTurn(place, deps, within);
    const taskId = await makeTask({ memoryId, messageId: turn.messageId }, within);
    const run = await openRun(request, place, turn, deps, within, { taskId, passesHeaders });
    return { turn, run, taskId };
  });
  const { run, taskId, turn } = begun;
  return {
    run,
    taskId,
    memoryId,
    messageId: turn.messageId,
    answer: () =>
      deps.conversations.exclusively(memoryId, signal, async (waited) => {
        const current = await upToDate(request, settings, waited);
        const history = await historyOf(place, current.settings.historyLimit, deps);
        return answerTurn({ ...current, ...begun, memoryId, question, history, recorded: [] }, deps);
      }),
  };
}

/** A run that another process began, as it was stored. */
export interface StoredRun {
  readonly run: RunLog;
  readonly taskId: string;
  readonly memoryId: string;
  readonly messageId: string;
  readonly recorded: readonly RunStep[];
}

/** Goes on with a turn. @throws as `answerTurn`, RESOURCE_NOT_FOUND when the memory or the message is gone */
export async function continueTurn(
  request: TurnRequest,
  { run, taskId, memoryId, messageId, recorded }: StoredRun,
  deps: ConversationalDeps,
): Promise<TurnResult> {
  const { agent, input, signal } = request;
  const { conversations } = deps;
  setMaxListeners(0, signal);
  const settings = turnSettings(agent, input);
  return conversations.exclusively(memoryId, signal, async (waited) => {
    const current = await upToDate(request, settings, waited);
    const before = await conversations.message(memoryId, input.regenerateInteractionId ?? messageId);
    const question = input.question ?? '';
    const history = await conversations.history(memoryId, current.settings.historyLimit, before);
    const turn = await conversations.begin({ memoryId }, question, { messageId, traces: tracesOf(recorded) });
    return answerTurn({ ...current, memoryId, question, history, turn, run, taskId, recorded }, deps);
  });
}

/** What was asked, by whom and of which agent; after a wait as it is now. */
async function upToDate(request: TurnRequest, settings: TurnSettings, waited: boolean) {
  if (!waited || request.renewed === undefined) return { ...request, settings };
  const current = { ...request, ...(await request.renewed()) };
  return { ...current, settings: turnSettings(current.agent, current.input) };
}

function openConversation({ principal, input }: TurnRequest, { conversations }: ConversationalDeps) {
  return conversations.open(principal, input.memoryId, input.question ?? '');
}

async function locate(
  { input }: TurnRequest,
  conversation: Conversation,
  { conversations }: ConversationalDeps,
): Promise<Place> {
  const { memoryId } = conversation;
  const { regenerateInteractionId: again, parentInteractionId: taken } = input;
  const repeated = again ? await conversations.message(memoryId, again) : undefined;
  const parent = taken ? await conversations.message(memoryId, taken) : undefined;
  const question = wellFormed(input.question ?? repeated?.input ?? '');
  return { conversation, question, parent, before: repeated ?? parent };
}

async function historyOf({ conversation, before }: Place, limit: number, { conversations }: ConversationalDeps) {
  return conversation.unsaved ? [] : conversations.history(conversation.memoryId, limit, before);
}

/** The memory, when it is new, and the question. */
function openTurn({ conversation, question, parent }: Place, deps: ConversationalDeps, within: Unit) {
  return deps.conversations.begin(conversation, question, { messageId: parent?.id, within });
}

function openRun(
  { principal, agentId, input }: TurnRequest,
  { conversation, question }: Place,
  { messageId }: OpenTurn,
  { journal }: ConversationalDeps,
  within: Unit,
  shown?: { readonly taskId: string; readonly passesHeaders: boolean },
): Promise<RunLog> {
  const start = {
    agentId,
    memoryId: conversation.memoryId,
    messageId,
    principal: principal.id,
    request: storedRequest(question, input, shown?.passesHeaders ?? false),
    ...(shown && { taskId: shown.taskId }),
  };
  return journal.begin(start, within);
}
