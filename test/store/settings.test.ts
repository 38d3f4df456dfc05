import { expect, it } from 'vitest';
import { createSettingStore } from '../../src/store/settings.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('settings', (database) => {
  it('sets, replaces and removes, each scope by itself', async () => {
    const settings = createSettingStore(database());
    await settings.apply([
      { scope: 'persistent', name: 'plugins.a', value: '1' },
      { scope: 'transient', name: 'plugins.a', value: '2' },
      { scope: 'persistent', name: 'plugins.b', value: '🦉' },
    ]);
    await settings.apply([
      { scope: 'persistent', name: 'plugins.a', value: null },
      { scope: 'persistent', name: 'plugins.b', value: '["x"]' },
      { scope: 'persistent', name: 'never.set', value: null },
    ]);
    expect(await settings.all()).toEqual([
      { scope: 'persistent', name: 'plugins.b', value: '["x"]' },
      { scope: 'transient', name: 'plugins.a', value: '2' },
    ]);
  });

  it('applies all changes or none', async () => {
    const settings = createSettingStore(database());
    const wrong = { scope: 'nowhere' as 'transient', name: 'b', value: '2' };
    await expect(settings.apply([{ scope: 'persistent', name: 'a', value: '1' }, wrong])).rejects.toThrow();
    expect(await settings.all()).toEqual([]);
  });

  it('clears the transient ones and keeps the others', async () => {
    const settings = createSettingStore(database());
    await settings.apply([
      { scope: 'persistent', name: 'kept', value: '1' },
      { scope: 'transient', name: 'gone', value: '1' },
    ]);
    await settings.clearTransient();
    expect(await settings.all()).toEqual([{ scope: 'persistent', name: 'kept', value: '1' }]);
  });
});
