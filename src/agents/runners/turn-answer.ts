import { ownerId } from '../../identity/ownership.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import { UniqueViolation } from '../../store/database.ts';
import type { MissingTools, ResolvedTools } from '../../tools/tool.ts';
import { isSuspended } from '../suspension.ts';
import { conversationalReply } from './conversational-reply.ts';
import type { ConversationalDeps, OpenedTurn, TurnResult } from './turn.ts';
import { driveTurn } from './turn-drive.ts';
import { createTurnEvents } from './turn-events.ts';
import { leave, remember, rememberFailure, shownCause } from './turn-memory.ts';

/** Enough for a run that has its answer already. */
const NO_TOOLS: ResolvedTools = { tools: [], missing: [], withheld: [], warnings: [] };

/**
 * Answers a turn that has begun, and stores what came of it. A run that a task shows is left `running`: it ends together
 * with its task, and says so then.
 * @throws the error of the model or of a required connector. A suspended run, and one that another process drives now, are
 * left as they are.
 */
export async function answerTurn(opened: OpenedTurn, deps: ConversationalDeps): Promise<TurnResult> {
  const { memoryId, recorded, run, settings, taskId, turn } = opened;
  const events = createTurnEvents(deps.events, { ...opened, owner: ownerId(opened.principal) });
  events.say(recorded.length === 0 ? 'started' : 'continued');
  try {
    const final = foldSteps(recorded).final;
    const resolving = toolsOf(opened, deps);
    const resolved = await (final === undefined ? resolving : resolving.catch(() => NO_TOOLS));
    const { tools, missing } = resolved;
    const steps: RunStep[] = [...recorded];
    let kept = final !== undefined && (await remember(final, steps, tools, opened, deps.log));
    /** A step and what memory keeps of it are written side by side, in one transaction where the store can. */
    const append = async (step: RunStep): Promise<void> => {
      const shown = [...steps, step];
      const [, remembered] = await Promise.all([run.append(step), remember(step, shown, tools, opened, deps.log)]);
      steps.push(step);
      if (step.kind === 'final_answer') kept = remembered;
    };
    await driveTurn(
      opened,
      resolved,
      append,
      (event) => {
        events.step(event);
        opened.emit?.(event);
      },
      deps,
    );
    const { modelId, verbose, includeTokenUsage } = settings;
    const { messageId } = turn;
    const body = conversationalReply({ memoryId, messageId, modelId, steps, tools, verbose, includeTokenUsage });
    const lost = kept ? [] : [`The answer could not be stored in memory ${memoryId}`];
    if (taskId === undefined) events.say('completed');
    return { body, warnings: [...missing.map(warningText), ...resolved.warnings, ...lost] };
  } catch (error) {
    if (isSuspended(opened.signal) || (taskId !== undefined && error instanceof UniqueViolation)) {
      events.say('suspended');
      throw error;
    }
    const cause = opened.signal.aborted ? 'the request was cancelled' : shownCause(error);
    await Promise.all([
      taskId === undefined && leave(`run ${run.runId}`, () => run.finish('failed'), deps.log),
      rememberFailure(cause, opened, deps.log),
    ]);
    if (taskId === undefined) events.say('failed');
    throw error;
  }
}

function toolsOf(opened: OpenedTurn, deps: ConversationalDeps): Promise<ResolvedTools> {
  const { agentId, agent, settings, principal, callerHeaders, signal } = opened;
  return deps.registry.resolve({
    agentId,
    agent,
    parameters: settings.parameters,
    ...(settings.selectedTools ? { selected: settings.selectedTools } : {}),
    caller: { principal, ...(callerHeaders && { headers: callerHeaders }) },
    signal,
  });
}

function warningText({ connectorId, name, code, message }: MissingTools): string {
  return `The tools of connector "${name}" (${connectorId}) are missing (${code}): ${message}`;
}
