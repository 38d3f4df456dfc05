import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readClientConfig, readConfig } from '../src/config.ts';
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
      firstAdmin: undefined,
      openId: undefined,
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

  it('takes a certificate and a key, or neither', () => {
    const tls = { TENON_TLS_CERT: '/etc/tenon/cert.pem', TENON_TLS_KEY: 'key.pem' };
    expect(readConfig(tls).tls).toEqual({ cert: '/etc/tenon/cert.pem', key: `${process.cwd()}/key.pem` });
    expect(readConfig({ TENON_TLS_CERT: '' }).tls).toBeUndefined();
    for (const [missing, given] of [Object.keys(tls), Object.keys(tls).reverse()]) {
      expect(() => readConfig({ [String(given)]: 'x.pem' })).toThrow(
        new RegExp(`^${missing} must be set with ${given}`),
      );
    }
  });

  it('tells the command line where the server is and who calls', () => {
    expect(readClientConfig({})).toEqual({
      url: 'http://127.0.0.1:9200',
      apiKey: undefined,
      user: undefined,
      password: undefined,
    });
    const given = {
      TENON_URL: 'https://agents.example/tenon/',
      TENON_API_KEY: 'k',
      TENON_USER: 'ann',
      TENON_PASSWORD: '',
    };
    expect(readClientConfig(given)).toMatchObject({ url: 'https://agents.example/tenon', apiKey: 'k', user: 'ann' });
    expect(readClientConfig(given).password).toBeUndefined();
    for (const url of ['agents.example', 'ftp://agents.example', 'http://a?b=c', 'http://a#b', 'http://ann:pw@a']) {
      expect(() => readClientConfig({ TENON_URL: url })).toThrow(/^TENON_URL must /);
    }
  });

  it('reads who may sign in', () => {
    expect(readConfig({ TENON_ADMIN_PASSWORD: 'pw' }).firstAdmin).toEqual({ name: 'admin', password: 'pw' });
    expect(readConfig({ TENON_ADMIN_USER: 'ann', TENON_ADMIN_PASSWORD: 'pw' }).firstAdmin?.name).toBe('ann');
    expect(readConfig({ TENON_ADMIN_USER: 'ann' }).firstAdmin).toBeUndefined();
    const issuer = 'https://id.example/realms/main';
    expect(readConfig({ TENON_OIDC_ISSUER: issuer, TENON_OIDC_AUDIENCE: 'tenon, cli' }).openId).toEqual({
      issuer,
      audience: ['tenon', 'cli'],
      rolesClaim: 'roles',
      nameClaim: 'preferred_username',
    });
    for (const audience of ['', ' , ']) {
      expect(() => readConfig({ TENON_OIDC_ISSUER: issuer, TENON_OIDC_AUDIENCE: audience })).toThrow(
        /^TENON_OIDC_AUDIENCE must be set/,
      );
    }
    const claims = { TENON_OIDC_ROLES_CLAIM: 'realm_access.roles', TENON_OIDC_NAME_CLAIM: 'email' };
    const { openId } = readConfig({ TENON_OIDC_ISSUER: issuer, TENON_OIDC_AUDIENCE: 'tenon', ...claims });
    expect(openId).toMatchObject({ rolesClaim: 'realm_access.roles', nameClaim: 'email' });
  });

  it('knows which configuration files were named, and looks up variables for them', () => {
    expect(readConfig({}).namedConfigFiles).toEqual([]);
    const environment = { TENON_CONFIG: './own.json', TENON_GLOBAL_CONFIG: '', TOKEN: 'a', EMPTY: '' };
    const { namedConfigFiles, configFile, variable } = readConfig(environment);
    expect([namedConfigFiles, configFile]).toEqual([['TENON_CONFIG'], resolve('own.json')]);
    expect(['TOKEN', 'EMPTY', 'MISSING', 'toString'].map(variable)).toEqual(['a', undefined, undefined, undefined]);
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
    ['TENON_OIDC_ISSUER', 'ftp://secret'],
    ['TENON_OIDC_ISSUER', 'https://secret.example/realm?x=1'],
    ['TENON_OIDC_ISSUER', 'https://[secret'],
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
