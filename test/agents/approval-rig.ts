import type { CallRequest, People } from '../../src/agents/call-requests.ts';
import { runToolCalls, type ToolCallOptions } from '../../src/agents/tool-calls.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { ToolCall } from '../../src/llm/types.ts';
import type { GivenAnswer } from '../../src/runs/request-document.ts';
import { type CallStep, foldSteps, type RunCall } from '../../src/runs/steps.ts';
import { createArgumentChecker } from '../../src/tools/arguments.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { answered, fakeTool } from './fixtures.ts';

/** People whose answers the test gives, by the place of the request in the order of asking. */
export function fakePeople() {
  const asked: CallRequest[] = [];
  const closed: string[] = [];
  const answers = new Map<string, { resolve: (given: GivenAnswer) => void; given: Promise<GivenAnswer> }>();
  const arrivals = new Set<() => void>();
  const slot = (id: string) => {
    const known = answers.get(id);
    if (known) return known;
    let resolve = (_given: GivenAnswer): void => undefined;
    const given = new Promise<GivenAnswer>((done) => {
      resolve = done;
    });
    answers.set(id, { resolve, given });
    return { resolve, given };
  };
  const people: People = {
    async open(request) {
      if (asked.every(({ requestId }) => requestId !== request.requestId)) asked.push(request);
      for (const arrive of arrivals) arrive();
    },
    answered: (id, signal, withdrawn) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener('abort', () => reject(signal.reason));
        const close = (): void => {
          closed.push(String(withdrawn?.reason));
          resolve({ action: 'cancel', expired: true });
        };
        if (withdrawn?.aborted) close();
        withdrawn?.addEventListener('abort', close);
        slot(id).given.then(resolve, reject);
      }),
  };
  return {
    people,
    asked,
    /** Why requests were closed. */
    closed,
    async waitFor(count: number): Promise<void> {
      while (asked.length < count) {
        await new Promise<void>((resolve) => {
          arrivals.add(resolve);
        });
      }
    },
    give: (at: number, given: GivenAnswer) => slot(asked[at]?.requestId ?? '').resolve(given),
  };
}

export function start(
  calls: readonly (ToolCall | RunCall)[],
  tools: readonly Tool[],
  options: Partial<ToolCallOptions> & { signal?: AbortSignal } = {},
) {
  const steps: CallStep[] = [];
  const { signal = new AbortController().signal, ...more } = options;
  const ended = runToolCalls(
    0,
    calls.map((made, index) => ('call' in made ? made : { call: made, index })),
    {
      tools,
      checker: createArgumentChecker(),
      context: { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal },
      concurrency: 8,
      resultLimit: 1000,
      record: async (step) => void steps.push(step),
      ...more,
    },
  );
  ended.catch(() => undefined);
  const outcomes = () => steps.filter((step) => step.kind === 'tool_outcome').sort((a, b) => a.index - b.index);
  return { ended, steps, outcomes, kinds: () => steps.map((step) => step.kind) };
}

/** Runs with options that change while they are in use. */
export function startWith(
  calls: readonly ToolCall[],
  changing: Pick<ToolCallOptions, 'tools' | 'people' | 'renew'> & Pick<Partial<ToolCallOptions>, 'withheld'>,
) {
  const steps: CallStep[] = [];
  const { signal } = new AbortController();
  const options = Object.assign(changing, {
    checker: createArgumentChecker(),
    context: { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal },
    concurrency: 8,
    resultLimit: 1000,
    record: async (step: CallStep) => void steps.push(step),
  });
  const runs = calls.map((made, index) => ({ call: made, index }));
  return { ended: runToolCalls(0, runs, options as ToolCallOptions), steps };
}

/** The calls of one answer as they are after these steps. */
export function callsAfter(made: readonly ToolCall[], steps: readonly CallStep[]): readonly RunCall[] {
  return foldSteps([answered('', [...made]), ...steps]).turns[0]?.calls ?? [];
}

/** A tool whose calls need approval. */
export const guarded = (name: string) =>
  fakeTool(name, { permission: 'ask', source: { connectorId: 'c1', tool: `the_${name}` } });

/** One question of a server, a form. */
export const QUESTIONS = {
  name: { mode: 'form', message: 'Who?', schema: { type: 'object', properties: { name: { type: 'string' } } } },
  consent: { mode: 'url', message: 'Agree', url: 'https://example.test/agree' },
} as const;
