import { expect, it } from 'vitest';
import { createConnectionStore } from '../../src/store/connections.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('connection states', (database) => {
  it('hold the last one of each connector', async () => {
    const connections = createConnectionStore(database());
    expect(await connections.state('c')).toBeUndefined();
    await connections.save({ connectorId: 'c', status: 'connecting', body: {}, since: 1 });
    const last = { connectorId: 'c', status: 'failed', body: { error: { code: 'dns_failed' } }, since: 2 };
    await connections.save(last);
    await connections.save({ connectorId: 'a', status: 'idle', body: {}, since: 3 });
    expect(await connections.state('c')).toEqual(last);
    expect((await connections.states()).map(({ connectorId }) => connectorId)).toEqual(['a', 'c']);
  });

  it('keep the way there, newest first, in order of arrival within one millisecond', async () => {
    const connections = createConnectionStore(database());
    const statuses = ['idle', 'connecting', 'connected', 'failed', 'connecting', 'connected'];
    for (const [index, to] of statuses.entries()) {
      const transition = { from: statuses[index - 1] ?? 'none', to, cause: `step ${index}`, time: 5 };
      await connections.save({ connectorId: 'c', status: to, body: {}, since: 5 }, transition);
    }
    await connections.save({ connectorId: 'c', status: 'connected', body: { seen: 6 }, since: 5 });
    const history = await connections.history('c', 3);
    expect(history.map(({ cause }) => cause)).toEqual(['step 5', 'step 4', 'step 3']);
    expect(history[0]).toEqual({ from: 'connecting', to: 'connected', cause: 'step 5', time: 5 });
  });

  it('keep code and message of a failure, and go with their connector', async () => {
    const connections = createConnectionStore(database());
    const transition = { from: 'a', to: 'failed', cause: 'connect', code: 'tls_failed', message: 'expired', time: 1 };
    await connections.save({ connectorId: 'c', status: 'failed', body: {}, since: 1 }, transition);
    expect(await connections.history('c', 10)).toEqual([transition]);
    await connections.deleteOf('c');
    expect(await connections.history('c', 10)).toEqual([]);
    expect(await connections.state('c')).toBeUndefined();
  });
});
