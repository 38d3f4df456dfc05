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
  const agentsOf = createConnectorAgents({ documents, connectors: { joinedTo, joinsAgents: () => true } });
  const found = await agentsOf(['one', 'two', 'three', 'nobody']);
  expect(Object.fromEntries(found)).toEqual({
    one: [named('a')],
    two: [named('a'), named('b'), named('c')],
    three: [named('a'), named('c')],
    nobody: [],
  });
});

it('reads the names of all agents only where a declaration joins some', async () => {
  await agent('a', 'one');
  let read = 0;
  const counted = {
    ...documents,
    names: (noun: Parameters<Documents['names']>[0]) => {
      read += 1;
      return documents.names(noun);
    },
  };
  const joinsAgents = (ids: readonly string[]) => ids.includes('declared');
  const agentsOf = createConnectorAgents({ documents: counted, connectors: { joinedTo: () => [], joinsAgents } });
  expect((await agentsOf(['one'])).get('one')).toEqual([named('a')]);
  expect(read).toBe(0);
  await agentsOf(['one', 'declared']);
  expect(read).toBe(1);
});

it('names no more than a hundred of one connector, and finds those of many connectors', async () => {
  for (let n = 0; n < 120; n += 1) await agent(`x${n}`, 'busy', `own${n}`);
  const agentsOf = createConnectorAgents({ documents, connectors: { joinedTo: () => [], joinsAgents: () => false } });
  expect((await agentsOf(['busy'])).get('busy')).toHaveLength(100);
  const ids = Array.from({ length: 120 }, (_, n) => `own${n}`);
  const found = await agentsOf(ids);
  expect(ids.map((id) => found.get(id)?.map((each) => each.agent_id))).toEqual(ids.map((_, n) => [`x${n}`]));
});
