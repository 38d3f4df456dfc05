import { wellFormed } from '../json.ts';
import { foldSteps, type RunStep } from '../runs/steps.ts';

/** What the model is asked when a run has used up its model calls. */
export const LIMIT_REQUEST =
  'You have reached the limit of steps for this task and can call no more tools. Summarise in a few sentences what was done so far, what was found, and what is still missing.';

const SHOWN = 500;

/** The answer of a run that reached its limit of model calls. */
export function limitText(maxIterations: number, summary: string): string {
  return `Agent reached maximum iterations (${maxIterations}) without completing the task. Here's a summary of the steps completed so far:\n\n${summary}`;
}

/** The steps of a run as a numbered list, for when no model can tell them. */
export function listedSummary(steps: readonly RunStep[]): string {
  const lines = foldSteps(steps).turns.flatMap(({ answer, calls }) => [
    ...(answer.text.trim() === '' ? [] : [shorten(answer.text)]),
    ...calls.map(({ call, outcome }) => {
      const result = outcome === undefined ? 'no result' : shorten(outcome.text);
      return `${call.name}(${shorten(call.arguments)}): ${result}`;
    }),
  ]);
  return lines.map((line, index) => `${index + 1}. ${line}`).join('\n');
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= SHOWN ? line : `${wellFormed(line.slice(0, SHOWN))}…`;
}
