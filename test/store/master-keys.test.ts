import { expect, it } from 'vitest';
import { createDocuments } from '../../src/store/documents.ts';
import { createMasterKeys } from '../../src/store/master-keys.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('master keys', (database) => {
  it('remember the probe of each key, the first one for good', async () => {
    const keys = createMasterKeys(database());
    expect(await keys.any()).toBe(false);
    expect(await keys.probe('k1')).toBeUndefined();
    await keys.record('k1', 'probe-1');
    await keys.record('k1', 'another');
    await keys.record('k2', 'probe-2');
    expect(await keys.probe('k1')).toBe('probe-1');
    expect(await keys.probe('k2')).toBe('probe-2');
    expect(await keys.any()).toBe(true);
  });

  it('see sealed credentials, too', async () => {
    await createDocuments(database()).insert('connector', 'c', { body: {}, sealed: 'sealed' });
    expect(await createMasterKeys(database()).any()).toBe(true);
  });
});
