import { describe, expect, it } from 'vitest';
import { readConfig } from '../src/config.ts';
import { StartupError } from '../src/errors.ts';

describe('the configuration', () => {
  it('has a default for everything', () => {
    const config = readConfig({ XDG_CONFIG_HOME: '/home/somebody/.config' });
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 9200,
      dataDir: `${process.cwd()}/data`,
      databaseUrl: undefined,
      logLevel: 'info',
      apiKey: undefined,
      keystore: undefined,
      keyFile: '/home/somebody/.config/tenon/master.key',
      trustedEndpoints: undefined,
      configFile: `${process.cwd()}/tenon.json`,
      globalConfigFile: '/home/somebody/.config/tenon/tenon.json',
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it('reads its variables and nothing else', () => {
    const config = readConfig({
      TENON_HOST: '0.0.0.0',
      TENON_PORT: '0',
      TENON_DATA_DIR: '/var/lib/tenon',
      TENON_DATABASE_URL: 'postgres://u:p@db/tenon',
      TENON_API_KEY: 'key',
      TENON_LOG_LEVEL: 'debug',
      TENON_TRUSTED_PRIVATE_ENDPOINTS: '^http://mcp:3001(/.*)?$, (?i)^http://other$',
      TENON_KEYSTORE: 'env',
      PORT: '80',
    });
    expect(config).toMatchObject({ host: '0.0.0.0', port: 0, dataDir: '/var/lib/tenon', apiKey: 'key' });
    expect(config.databaseUrl).toBe('postgres://u:p@db/tenon');
    expect(config.trustedPrivateEndpoints).toEqual(['^http://mcp:3001(/.*)?$', '(?i)^http://other$']);
  });

  it('takes an empty variable as not set', () => {
    const config = readConfig({ TENON_PORT: '', TENON_API_KEY: '', TENON_TRUSTED_ENDPOINTS: '' });
    expect(config).toMatchObject({ port: 9200, apiKey: undefined, trustedEndpoints: undefined });
  });

  it.each([
    ['TENON_PORT', '70000'],
    ['TENON_PORT', 'nine'],
    ['TENON_LOG_LEVEL', 'loud-secret'],
    ['TENON_KEYSTORE', 'safe-secret'],
    ['TENON_DATABASE_URL', 'mysql://u:secret@db/x'],
    ['TENON_PUBLIC_URL', 'ftp://secret'],
    ['TENON_API_KEY', 'two secret words'],
    ['TENON_TRUSTED_ENDPOINTS', '^https://ok$,([a-z'],
  ])('names %s when it cannot be used', (name, value) => {
    let error: unknown;
    try {
      readConfig({ [name]: value });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(StartupError);
    expect((error as Error).message).toMatch(new RegExp(`^${name}`));
    expect((error as Error).message).not.toContain('secret');
  });
});
