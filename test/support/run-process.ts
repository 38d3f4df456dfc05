/** A process of its own that drives an endless run and says each step it has committed: `run-process.ts <JSON>`. */
import { writeSync } from 'node:fs';
import { driveRun } from '../../src/agents/loop.ts';
import { runToolCalls } from '../../src/agents/tool-calls.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { createJournal } from '../../src/runs/journal.ts';
import { type DatabaseOptions, openDatabase } from '../../src/store/database.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { createArgumentChecker } from '../../src/tools/arguments.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { scriptedModel } from './scripted-model.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as DatabaseOptions;
const database = await openDatabase(options);
const journal = createJournal({ runs: createRunStore(database) });
const run = await journal.begin({ agentId: 'agent', principal: 'open', request: { question: 'q' } });
const say = (line: string): void => void writeSync(1, `${line}\n`);
say(`run ${run.runId}`);

const signal = new AbortController().signal;
const tool = (name: string, repeatable: boolean): Tool => ({
  spec: { name, description: name, inputSchema: { type: 'object', properties: {} } },
  type: 'McpStreamableHttpTool',
  repeatable,
  includeOutput: false,
  permission: 'allow',
  async execute(argumentsText) {
    say(`left ${name} ${argumentsText}`);
    return { text: `${name} ${argumentsText}`, isError: false, outcome: 'ok' };
  },
});
const tools = [tool('read', true), tool('write', false)];
let asked = 0;
const model = scriptedModel(async () => {
  asked += 1;
  return {
    calls: ['read', 'write'].map((name) => ({ id: `${name}-${asked}`, name, arguments: `{"turn":${asked}}` })),
  };
});
const checker = createArgumentChecker();
await driveRun([], {
  limits: { maxIterations: 1_000_000, maxFaultyAnswers: 3 },
  signal,
  async append(step) {
    await run.append(step);
    say(`committed ${step.kind} ${'callId' in step ? step.callId : ''}`);
  },
  emit: () => undefined,
  model: (interactions) =>
    model.stream('m', undefined, { history: [], question: 'q', interactions, tools: [], parameters: {} }, signal),
  runCalls: (turn, calls, record) =>
    runToolCalls(turn, calls, {
      tools,
      checker,
      context: { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: run.runId, signal },
      concurrency: 8,
      resultLimit: 1000,
      record,
    }),
});
