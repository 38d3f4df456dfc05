import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { createSettings, type SettingsDeps } from '../../src/settings/service.ts';
import { createSettingStore, type SettingStore } from '../../src/store/settings.ts';
import { sqliteDatabase } from '../support/databases.ts';

const P = 'plugins.ml_commons.';
const TRUSTED = `${P}trusted_connector_endpoints_regex`;
const MCP = `${P}mcp_connector_enabled`;

let store: SettingStore;
let dispose: () => Promise<void>;
beforeEach(async () => {
  const fresh = await sqliteDatabase();
  store = createSettingStore(fresh.database);
  dispose = fresh.dispose;
});
afterEach(() => dispose());

function open(deps: Partial<SettingsDeps> = {}) {
  return createSettings({ store, environment: {}, ...deps });
}

function plain(value: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

describe('values in force', () => {
  it.each([
    ['mcp_connector_enabled', true],
    ['stream_enabled', true],
    ['unified_agent_api_enabled', true],
    ['agent_framework_enabled', true],
    ['memory_feature_enabled', true],
    ['execute_tools_enabled', true],
    ['remote_inference.enabled', true],
    ['model_auto_deploy.enable', true],
    ['only_run_on_ml_node', true],
    ['mcp_server_enabled', false],
    ['mcp_header_passthrough_enabled', false],
    ['connector.private_ip_enabled', false],
    ['connector_access_control_enabled', false],
    ['safe_delete_model', false],
    ['no_such_setting', false],
  ])('%s starts as %s', async (name, value) => {
    expect((await open()).flag(P + name)).toBe(value);
  });

  it('know a list that is not set from an empty one', async () => {
    const settings = await open();
    expect(settings.list(TRUSTED)).toBeUndefined();
    expect(settings.list(`${P}trusted_connector_private_endpoints_regex`)).toEqual([]);
    await settings.update({ persistent: { [TRUSTED]: [] } });
    expect(settings.list(TRUSTED)).toEqual([]);
    expect(settings.text(TRUSTED)).toBe('[]');
    expect(settings.text(`${P}jvm_heap_memory_threshold`)).toBe('85');
    expect(settings.text(`${P}none`)).toBeUndefined();
  });

  it('are transient over persistent over environment over default', async () => {
    const settings = await open({ environment: { [MCP]: 'false' } });
    expect(settings.flag(MCP)).toBe(false);
    await settings.update({ persistent: { [MCP]: true } });
    expect(settings.flag(MCP)).toBe(true);
    await settings.update({ transient: { [MCP]: false } });
    expect(settings.flag(MCP)).toBe(false);
    await settings.update({ transient: { [MCP]: null } });
    expect(settings.flag(MCP)).toBe(true);
    await settings.update({ persistent: { [MCP]: null } });
    expect(settings.flag(MCP)).toBe(false);
  });

  it.each([
    ['a,b c', ['a', 'b c']],
    ['["x{1,2}","y"]', ['x{1,2}', 'y']],
    ['[ab]c, d', ['[ab]c', 'd']],
    ['', []],
  ])('read the list %j of the environment', async (text, list) => {
    expect((await open({ environment: { [TRUSTED]: text } })).list(TRUSTED)).toEqual(list);
  });

  it('refuse an environment that cannot be', async () => {
    await expect(open({ environment: { [TRUSTED]: '(' } })).rejects.toMatchObject({
      name: 'StartupError',
      message: expect.stringContaining(TRUSTED),
    });
    await expect(open({ environment: { [MCP]: 'yes' } })).rejects.toThrow('only [true] or [false] are allowed');
  });

  it('outlive the process when persistent, and transient only if they are not cleared', async () => {
    await (await open()).update({ persistent: { [`${P}a`]: '1' }, transient: { [`${P}b`]: '2' } });
    const next = await open();
    expect([next.text(`${P}a`), next.text(`${P}b`)]).toEqual(['1', '2']);
    const cleared = await open({ clearTransient: true });
    expect([cleared.text(`${P}a`), cleared.text(`${P}b`)]).toEqual(['1', undefined]);
  });

  it('follow other processes', async () => {
    const settings = await open();
    const changed: (readonly string[])[] = [];
    settings.onChange((names) => changed.push(names));
    await (await open()).update({ persistent: { [MCP]: false } });
    expect(settings.flag(MCP)).toBe(true);
    await settings.refresh();
    expect(settings.flag(MCP)).toBe(false);
    expect(changed).toEqual([[MCP]]);
    await settings.refresh();
    expect(changed).toHaveLength(1);
  });

  it('are read each second until that is stopped, and a row of failed reads is reported once', async () => {
    let failing = false;
    let reads = 0;
    const reports: unknown[] = [];
    const all: SettingStore['all'] = () => {
      reads += 1;
      return failing ? Promise.reject(new Error('no database')) : store.all();
    };
    const settings = await open({ store: { ...store, all } });
    failing = true;
    const stop = settings.follow((error) => reports.push((error as Error).message));
    await expect.poll(() => reads, { timeout: 6000, interval: 50 }).toBe(3);
    expect(reports).toEqual(['no database']);
    failing = false;
    await (await open()).update({ persistent: { [MCP]: false } });
    await expect.poll(() => settings.flag(MCP), { timeout: 6000, interval: 50 }).toBe(false);
    stop();
  });
});

describe('an update', () => {
  it('takes flat and nested names and answers nested with texts', async () => {
    const settings = await open();
    const answer = await settings.update({
      persistent: { plugins: { ml_commons: { mcp_connector_enabled: false, 'connector.private_ip_enabled': 'true' } } },
      transient: { [`${P}jvm_heap_memory_threshold`]: 90, 'plugins.ml_commons': { any: [1, 'b'] } },
    });
    expect(plain(answer)).toEqual({
      acknowledged: true,
      persistent: {
        plugins: { ml_commons: { mcp_connector_enabled: 'false', connector: { private_ip_enabled: 'true' } } },
      },
      transient: { plugins: { ml_commons: { jvm_heap_memory_threshold: '90', any: ['1', 'b'] } } },
    });
    expect(settings.flag(MCP)).toBe(false);
    expect(settings.flag(`${P}connector.private_ip_enabled`)).toBe(true);
    expect(settings.list(`${P}any`)).toEqual(['1', 'b']);
  });

  it('answers with what it set, flat if asked', async () => {
    const settings = await open();
    await settings.update({ persistent: { [`${P}before`]: '1' } });
    const answer = await settings.update({ persistent: { [`${P}now`]: true, [`${P}before`]: null } }, { flat: true });
    expect(plain(answer)).toEqual({ acknowledged: true, persistent: { [`${P}now`]: 'true' }, transient: {} });
  });

  it('keeps settings that have no effect here', async () => {
    const settings = await open();
    const names = ['native_memory_threshold', 'allow_registering_model_via_url', 'sync_up_job_interval_in_seconds'];
    await settings.update({ persistent: Object.fromEntries(names.map((name) => [P + name, 100])) });
    expect(names.map((name) => settings.text(P + name))).toEqual(['100', '100', '100']);
  });

  it('resets by null: flat, nested and by wildcard, in its own scope', async () => {
    const settings = await open();
    const values = { [`${P}a`]: '1', [`${P}b`]: '2', [`${P}c.d`]: '3', 'plugins.other.e': '4' };
    await settings.update({ persistent: values, transient: { [`${P}a`]: 't' } });
    await settings.update({ persistent: { [`${P}a`]: null, plugins: { ml_commons: { c: { d: null } } } } });
    expect(plain(settings.describe({ includeDefaults: false, flat: true }))).toEqual({
      persistent: { [`${P}b`]: '2', 'plugins.other.e': '4' },
      transient: { [`${P}a`]: 't' },
    });
    await settings.update({ persistent: { [`${P}*`]: null } });
    expect(plain(settings.describe({ includeDefaults: false, flat: true }))).toEqual({
      persistent: { 'plugins.other.e': '4' },
      transient: { [`${P}a`]: 't' },
    });
    await settings.update({ persistent: { '*': null }, transient: { 'plugins.*': null } });
    expect(plain(settings.describe({ includeDefaults: false, flat: true }))).toEqual({ persistent: {}, transient: {} });
  });

  it('resets and sets in one request', async () => {
    const settings = await open();
    await settings.update({ persistent: { [`${P}a`]: '1', [`${P}b`]: '2' } });
    await settings.update({ persistent: { [`${P}*`]: null, [`${P}b`]: '3' } });
    expect(plain(settings.describe({ includeDefaults: false, flat: true })).persistent).toEqual({ [`${P}b`]: '3' });
  });

  it('splits a text given for a list', async () => {
    const settings = await open();
    await settings.update({ persistent: { [TRUSTED]: '^https://a/.*$, ^https://b/.*$' } });
    expect(settings.list(TRUSTED)).toEqual(['^https://a/.*$', '^https://b/.*$']);
  });

  it.each<[string, JsonObject, string, string]>([
    [
      'a setting of another name',
      { persistent: { 'cluster.name': 'x' } },
      'IllegalArgumentException',
      'persistent setting [cluster.name], not recognized',
    ],
    [
      'it among the transient ones',
      { transient: { a: { b: 1 } } },
      'IllegalArgumentException',
      'transient setting [a.b], not recognized',
    ],
    [
      'its reset',
      { persistent: { plugins: null } },
      'IllegalArgumentException',
      'persistent setting [plugins], not recognized',
    ],
    [
      'a value for a wildcard',
      { persistent: { [`${P}*`]: 'x' } },
      'IllegalArgumentException',
      `persistent setting [${P}*], not recognized`,
    ],
    [
      'what is no flag',
      { persistent: { [MCP]: 'yes' } },
      'IllegalArgumentException',
      'Failed to parse value [yes] as only [true] or [false] are allowed.',
    ],
    [
      'a list as a flag',
      { persistent: { [MCP]: ['true'] } },
      'IllegalArgumentException',
      'Failed to parse value [["true"]] as only [true] or [false] are allowed.',
    ],
    [
      'a broken pattern',
      { persistent: { [TRUSTED]: ['('] } },
      'IllegalArgumentException',
      `The pattern "(" of ${TRUSTED} is not a regular expression`,
    ],
    [
      'another member',
      { persistant: {} },
      'ParsingException',
      '[cluster_update_settings_request] unknown field [persistant]',
    ],
    [
      'a list of settings',
      { persistent: [] },
      'ParsingException',
      '[cluster_update_settings_request] [persistent] must be an object',
    ],
    ['nothing', {}, 'ActionRequestValidationException', 'Validation Failed: 1: no settings to update;'],
    [
      'nothing inside',
      { persistent: {}, transient: null },
      'ActionRequestValidationException',
      'Validation Failed: 1: no settings to update;',
    ],
  ])('refuses %s', async (_, body, exception, message) => {
    const settings = await open();
    await expect(settings.update(body)).rejects.toMatchObject({
      statusCode: 400,
      exception,
      message: expect.stringContaining(message),
    });
    expect(await store.all()).toEqual([]);
  });

  it('stores all of a request or nothing', async () => {
    const settings = await open();
    await expect(settings.update({ persistent: { [`${P}a`]: '1', [MCP]: 'no' } })).rejects.toThrow('Failed to parse');
    expect(settings.text(`${P}a`)).toBeUndefined();
    expect(await store.all()).toEqual([]);
  });

  it('tells listeners the names whose value changed', async () => {
    const settings = await open();
    const changed: (readonly string[])[] = [];
    settings.onChange((names) => changed.push(names));
    await settings.update({ persistent: { [MCP]: true, [`${P}a`]: '1' } });
    await settings.update({ persistent: { [`${P}a`]: '1' } });
    await settings.update({ transient: { [`${P}a`]: '2' } });
    expect(changed).toEqual([[`${P}a`], [`${P}a`]]);
  });
});

describe('the description', () => {
  it('holds what is set, nested or flat, and the rest as defaults when asked', async () => {
    const settings = await open({
      environment: { [`${P}trusted_connector_private_endpoints_regex`]: 'http://10\\.0\\.0\\.1/.*' },
    });
    await settings.update({ persistent: { [MCP]: false, [TRUSTED]: ['a'] } });
    expect(plain(settings.describe({ includeDefaults: false, flat: false }))).toEqual({
      persistent: {
        plugins: { ml_commons: { mcp_connector_enabled: 'false', trusted_connector_endpoints_regex: ['a'] } },
      },
      transient: {},
    });
    const { defaults } = settings.describe({ includeDefaults: true, flat: true }) as { defaults: JsonObject };
    expect(defaults).toMatchObject({
      [`${P}stream_enabled`]: 'true',
      [`${P}mcp_server_enabled`]: 'false',
      [`${P}trusted_connector_private_endpoints_regex`]: ['http://10\\.0\\.0\\.1/.*'],
    });
    expect(defaults).not.toHaveProperty([MCP]);
    expect(defaults).not.toHaveProperty([TRUSTED]);
  });

  it('keeps a name dotted whose start is a setting itself, and no prototype is touched', async () => {
    const settings = await open();
    await settings.update({ persistent: { 'plugins.a': '1', 'plugins.a.b': '2', 'plugins.__proto__.polluted': '3' } });
    expect(JSON.stringify(settings.describe({ includeDefaults: false, flat: false }).persistent)).toBe(
      '{"plugins":{"__proto__":{"polluted":"3"},"a":"1","a.b":"2"}}',
    );
    expect({}).not.toHaveProperty('polluted');
  });
});
