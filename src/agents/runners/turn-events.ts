import type { JsonObject } from '../../json.ts';
import type { EventSink } from '../../telemetry/events.ts';
import type { LoopEvent } from '../loop.ts';
import type { OpenedTurn } from './turn.ts';

export interface TurnEvents {
  say(event: 'started' | 'continued' | 'completed' | 'failed' | 'suspended'): void;
  step(event: LoopEvent): void;
}

/** Tells others how a run goes: names and numbers, no arguments, no content. */
export function createTurnEvents(
  events: EventSink,
  { owner, agentId, taskId, run }: Pick<OpenedTurn, 'agentId' | 'taskId' | 'run'> & { readonly owner: string },
): TurnEvents {
  const about = { run_id: run.runId, agent_id: agentId, ...(taskId === undefined ? {} : { task_id: taskId }) };
  const scope = { owner };
  const publish = (event: string, more: JsonObject = {}): void =>
    events.publish({ type: 'run', data: { event, ...about, ...more }, scope });
  return {
    say: (event) => publish(event),
    step(event) {
      switch (event.type) {
        case 'tool_call':
          return publish('tool_call', callOf(event.call));
        case 'tool_progress': {
          const { progress, total } = event.progress;
          return publish('tool_progress', {
            ...callOf(event.call),
            progress,
            ...(total === undefined ? {} : { total }),
          });
        }
        case 'tool_result': {
          const { outcome, cause } = event.result;
          return publish('tool_result', {
            ...callOf(event.result),
            outcome,
            ...(cause === undefined ? {} : { cause }),
          });
        }
        case 'request':
          return publish('waiting', { request_id: event.request.requestId });
        default:
          return undefined;
      }
    },
  };
}

function callOf({ offeredName, turn, index }: { offeredName: string; turn: number; index: number }): JsonObject {
  return { tool: offeredName, turn, index };
}
