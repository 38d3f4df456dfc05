import { ownerId } from '../../identity/ownership.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import { UniqueViolation, type Unit } from '../../store/database.ts';
import type { MissingTools, Tool } from '../../tools/tool.ts';
import { isSuspended } from '../suspension.ts';
import { conversationalReply } from './conversational-reply.ts';
import type { ConversationalDeps, OpenedTurn, TurnResult } from './turn.ts';
import { driveTurn } from './turn-drive.ts';
import { createTurnEvents } from './turn-events.ts';
import { leave, remember, rememberFailure, shownCause } from './turn-memory.ts';
import { openTurnTools } from './turn-tools.ts';

/**
 * Answers a turn that has begun, and stores what came of it. A run that a task shows is left `running`, its question
 * unanswered where it failed: it ends together with its task, and says so then.
 * @throws the error of the model or of a required connector. A suspended run, and one that another process drives now, are
 * left as they are.
 */
export async function answerTurn(opened: OpenedTurn, deps: ConversationalDeps): Promise<TurnResult> {
  const { memoryId, recorded, run, settings, taskId, turn } = opened;
  const events = createTurnEvents(deps.events, { ...opened, owner: ownerId(opened.principal) });
  events.say(recorded.length === 0 ? 'started' : 'continued');
  try {
    const final = foldSteps(recorded).final;
    const turnTools = await openTurnTools(opened, deps, { answered: final !== undefined });
    const steps: RunStep[] = [...recorded];
    let kept = final !== undefined && (await remember(final, steps, turnTools.resolved.tools, opened, deps.log));
    /**
     * A step and what memory keeps of it are written side by side, in one transaction where the store can; in a run that
     * another process may take over, memory keeps nothing of a step that is not in the journal.
     */
    const append = async (step: RunStep): Promise<void> => {
      const shown = [...steps, step];
      let remembered = false;
      const keep = async (within?: Unit): Promise<void> => {
        remembered = await remember(step, shown, turnTools.resolved.tools, opened, deps.log, within);
      };
      if (taskId === undefined) await Promise.all([run.append(step), keep()]);
      else await run.append(step, keep);
      steps.push(step);
      if (step.kind === 'final_answer') kept = remembered;
    };
    await driveTurn(
      opened,
      turnTools,
      append,
      (event) => {
        events.step(event);
        opened.emit?.(event);
      },
      deps,
    );
    const { tools, missing, warnings: noted } = turnTools.resolved;
    const { modelId, verbose, includeTokenUsage } = settings;
    const { messageId } = turn;
    const body = conversationalReply({ memoryId, messageId, modelId, steps, tools, verbose, includeTokenUsage });
    const lost = kept ? [] : [`The answer could not be stored in memory ${memoryId}`];
    if (taskId === undefined) events.say('completed');
    const warnings = [...missing.map(warningText), ...noted, ...unapproved(steps, tools), ...lost];
    return { body, warnings };
  } catch (error) {
    if (isSuspended(opened.signal) || (taskId !== undefined && error instanceof UniqueViolation)) {
      events.say('suspended');
      throw error;
    }
    if (taskId !== undefined) throw error;
    const cause = opened.signal.aborted ? 'the request was cancelled' : shownCause(error);
    await Promise.all([
      leave(`run ${run.runId}`, () => run.finish('failed'), deps.log),
      rememberFailure(cause, opened, deps.log),
    ]);
    events.say('failed');
    throw error;
  }
}

/** Calls that only a person could have let through, in a run that nobody attends. */
function unapproved(steps: readonly RunStep[], tools: readonly Tool[]): string[] {
  const asking = new Set(tools.filter(({ permission }) => permission === 'ask').map(({ spec }) => spec.name));
  const names = steps.flatMap((step) =>
    step.kind === 'tool_outcome' && step.cause === 'needs_approval' ? step.offeredName : [],
  );
  return [...new Set(names)]
    .filter((name) => asking.has(name))
    .map(
      (name) =>
        `Calls of the tool ${name} were not run: they need the approval of a person. Execute the agent with ?async=true, and a person can approve them`,
    );
}

function warningText({ connectorId, name, code, message }: MissingTools): string {
  return `The tools of connector "${name}" (${connectorId}) are missing (${code}): ${message}`;
}
