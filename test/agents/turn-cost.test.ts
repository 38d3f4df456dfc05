import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRig, type Rig } from './rig.ts';

const TURN = [{ tool: 'echo', args: '{"text":"hi"}' }, 'It says hi.'] as const;
let rig: Rig;
beforeAll(async () => {
  rig = await openRig(...TURN, ...TURN, ...TURN);
});
afterAll(() => rig.dispose());

/** Runs one turn and gives the statements it made, from its first read to its last commit. */
async function statementsOf(agentId: string, more = {}): Promise<{ statements: string[]; memoryId: string }> {
  rig.statements.length = 0;
  const { status, text, memoryId } = await rig.ask(agentId, 'what does echo say?', more);
  expect([status, text]).toEqual([200, 'It says hi.']);
  // The settings, and whether users or roles changed, are looked at each second, whatever else happens.
  const periodic = /select .* from "settings"|select "value" from "sequences"/;
  return { statements: rig.statements.filter((sql) => !periodic.test(sql)), memoryId };
}

describe('a warm turn with one tool call', () => {
  it('writes in few transactions, of which only those around the call wait for the disk', async () => {
    const server = await rig.server();
    const agentId = await rig.agent([await rig.connector('echo', server.origin)]);
    const { memoryId } = await statementsOf(agentId);
    for (const more of [{}, { memory_id: memoryId }]) {
      const { statements } = await statementsOf(agentId, more);
      const count = (start: string) => statements.filter((sql) => sql.toLowerCase().startsWith(start)).length;
      expect(count('commit')).toBe(6);
      expect(count('pragma')).toBe(2);
      expect(statements.length).toBeLessThanOrEqual(44);
      const full = statements.findIndex((sql) => /synchronous = FULL/i.test(sql));
      const normal = statements.findIndex((sql) => /synchronous = NORMAL/i.test(sql));
      const durable = statements.slice(full, normal).join('\n');
      expect(durable).toContain('tool_intent');
      expect(durable).toContain('tool_outcome');
      expect([...statements.slice(0, full), ...statements.slice(normal)].join('\n')).not.toMatch(
        /'tool_(intent|outcome)'/,
      );
    }
  });
});
