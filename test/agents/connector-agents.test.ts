import { afterEach, beforeEach, expect, it } from 'vitest';
import { createConnectorAgents } from '../../src/agents/connector-agents.ts';
import { createDocuments, type Documents } from '../../src/store/documents.ts';
import { sqliteDatabase } from '../support/databases.ts';

let documents: Documents;
let dispose: () => Promise<void>;

beforeEach(async () => {
  const opened = await sqliteDatabase();
  documents = createDocuments(opened.database);
  dispose = opened.dispose;
});
afterEach(() => dispose());

async function agent(id: string, ...connectors: string[]): Promise<void> {
  const references = connectors.map((target) => ({ kind: 'connector', id: target }) as const);
  await documents.insert('agent', id, { name: `agent ${id}`, body: {}, references });
}
const named = (id: string) => ({ agent_id: id, name: `agent ${id}` });

it('tells which agents name a connector, and which a declaration joins it to, once each', async () => {
  await agent('a', 'one', 'two');
  await agent('b', 'two');
  await agent('c');
  const joinedTo = ({ id, name }: { id: string; name: string }) =>
    id === 'c' || name === 'agent a' ? ['two', 'three'] : [];
  const agentsOf = createConnectorAgents({ documents, connectors: { joinedTo } });
  const found = await agentsOf(['one', 'two', 'three', 'nobody']);
  expect(Object.fromEntries(found)).toEqual({
    one: [named('a')],
    two: [named('a'), named('b'), named('c')],
    three: [named('a'), named('c')],
    nobody: [],
  });
});

it('names no more than a hundred of one connector, and finds those of many connectors', async () => {
  for (let n = 0; n < 120; n += 1) await agent(`x${n}`, 'busy', `own${n}`);
  const agentsOf = createConnectorAgents({ documents, connectors: { joinedTo: () => [] } });
  expect((await agentsOf(['busy'])).get('busy')).toHaveLength(100);
  const ids = Array.from({ length: 120 }, (_, n) => `own${n}`);
  const found = await agentsOf(ids);
  expect(ids.map((id) => found.get(id)?.map((each) => each.agent_id))).toEqual(ids.map((_, n) => [`x${n}`]));
});
