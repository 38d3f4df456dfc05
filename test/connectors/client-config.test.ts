import { describe, expect, it } from 'vitest';
import { clientConfigInForce, readClientConfig, shownClientConfig } from '../../src/connectors/client-config.ts';

describe('client_config', () => {
  it('has the documented defaults for http and those of MCP', () => {
    expect(clientConfigInForce(undefined, 'http')).toEqual({
      max_connection: 30,
      connection_timeout: 30,
      read_timeout: 30,
      retry_backoff_policy: 'constant',
      max_retry_times: 0,
      retry_backoff_millis: 200,
      retry_timeout_seconds: 30,
      skip_ssl_verification: false,
      max_total_timeout: 300,
      protocol_version: 'auto',
      elicitation: 'decline',
    });
    expect(clientConfigInForce({ read_timeout: 5 }, 'mcp_streamable_http')).toMatchObject({
      read_timeout: 5,
      retry_backoff_policy: 'exponential_full_jitter',
      max_retry_times: 3,
      retry_timeout_seconds: 30,
    });
  });

  it('is shown with the documented defaults, and members of ours as given', () => {
    expect(shownClientConfig({ read_timeout: 5 }, 'http')).toEqual({
      max_connection: 30,
      connection_timeout: 30,
      read_timeout: 5,
      retry_backoff_policy: 'constant',
      max_retry_times: 0,
      retry_backoff_millis: 200,
      retry_timeout_seconds: 30,
      skip_ssl_verification: false,
    });
    expect(shownClientConfig({ elicitation: 'ask' }, 'mcp_streamable_http')).toMatchObject({
      elicitation: 'ask',
      max_retry_times: 3,
    });
  });

  it('keeps what it knows, typed, and leaves out the rest', () => {
    const given = {
      max_connection: '7',
      max_retry_times: -1,
      skip_ssl_verification: 'true',
      mutual_tls_enabled: false,
      read_timeout: null,
      other: 1,
    };
    expect(readClientConfig(given, 'http')).toEqual({
      max_connection: 7,
      max_retry_times: -1,
      skip_ssl_verification: true,
    });
    const ours = { max_total_timeout: 9, protocol_version: '2026-07-28', elicitation: 'accept_defaults' };
    expect(readClientConfig(ours, 'mcp_streamable_http')).toEqual(ours);
    expect(readClientConfig(ours, 'http')).toEqual({});
  });

  it.each<[string, object, string]>([
    ['an array', [], 'client_config must be an object.'],
    ['an unknown policy', { retry_backoff_policy: 'linear' }, 'Unsupported retry backoff policy'],
    ['a policy that is no text', { retry_backoff_policy: 1 }, 'Unsupported retry backoff policy'],
    ['no connection', { max_connection: 0 }, 'client_config.max_connection must be an integer from 1 to 10000.'],
    ['a fraction', { read_timeout: 1.5 }, 'client_config.read_timeout must be an integer from 1 to 2147483.'],
    ['a text', { read_timeout: 'x' }, 'client_config.read_timeout must be an integer'],
    ['more than a timer holds', { read_timeout: 2_147_484 }, 'client_config.read_timeout must be an integer'],
    ['too few retries', { max_retry_times: -2 }, 'client_config.max_retry_times must be an integer from -1 to 1000.'],
    ['no flag', { skip_ssl_verification: 1 }, 'client_config.skip_ssl_verification must be true or false.'],
    ['client certificates', { mutual_tls_enabled: true }, 'client_config.mutual_tls_enabled is not supported'],
    ['an unknown revision', { protocol_version: 'latest' }, 'client_config.protocol_version must be auto, legacy, or'],
    [
      'an unknown elicitation',
      { elicitation: 'no' },
      'client_config.elicitation must be one of [decline, accept_defaults, ask].',
    ],
  ])('refuses %s', (_, given, message) => {
    expect(() => readClientConfig(JSON.parse(JSON.stringify(given)), 'mcp_streamable_http')).toThrow(message);
  });
});
