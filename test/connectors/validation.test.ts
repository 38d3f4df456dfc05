import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { httpBody, mcpBody, type Rig, startRig } from './rig.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

function without(body: JsonObject, member: string): JsonObject {
  const { [member]: _, ...rest } = body;
  return rest;
}

async function failure(body: JsonObject): Promise<Record<string, unknown>> {
  const error = await rig.create(body).catch((thrown: unknown) => thrown);
  const { message, statusCode, exception } = error as { message: string; statusCode: number; exception: string };
  return { message, statusCode, exception };
}

describe('creating a connector', () => {
  it.each<[string, JsonObject, string]>([
    ['a name', without(mcpBody(), 'name'), 'Connector name is null'],
    ['a name that is not null', mcpBody({ name: null }), 'Connector name is null'],
    ['a name that is not blank', mcpBody({ name: ' ' }), 'Connector name is null'],
    ['a version', without(mcpBody(), 'version'), 'Connector version is null'],
    ['a protocol', without(mcpBody(), 'protocol'), 'Connector protocol is null'],
    ['a credential for http', without(httpBody(), 'credential'), 'Connector credential is null or empty list'],
    [
      'a credential with members for http',
      httpBody({}, { credential: {} }),
      'Connector credential is null or empty list',
    ],
    ['actions for http', without(httpBody(), 'actions'), 'No actions configured for this connector'],
    ['at least one action', httpBody({}, { actions: [] }), 'No actions configured for this connector'],
    ['a url for MCP', without(mcpBody(), 'url'), 'MCP Connector url is null or blank'],
    ['a url that is not blank', mcpBody({ url: ' ' }), 'MCP Connector url is null or blank'],
    [
      'a known protocol',
      httpBody({}, { protocol: 'grpc' }),
      'Unsupported connector protocol. Please use one of [aws_sigv4, http, mcp_sse, mcp_streamable_http]',
    ],
    [
      'a transport that is served',
      mcpBody({ protocol: 'mcp_sse' }),
      'Connector protocol mcp_sse is not served: servers of that transport are reached by its successor. Please use mcp_streamable_http.',
    ],
    [
      'a signature that is served',
      httpBody({}, { protocol: 'aws_sigv4' }),
      'Connector protocol aws_sigv4 is not served yet. Please use http with a header that holds an API key.',
    ],
    ['an action type', httpBody({ action_type: null }), "action type can't be null"],
    [
      'a known action type',
      httpBody({ action_type: 'train' }),
      'Unsupported action type. Please use one of [predict, execute, batch_predict, cancel_batch_predict, batch_predict_status]',
    ],
    ['a method', httpBody({ method: null }), "method can't be null"],
    [
      'a known method',
      httpBody({ method: 'BREW' }),
      'unsupported http method. Please use one of [POST, GET, PUT, DELETE]',
    ],
    ['a url of each action', httpBody({ url: null }), "url can't be null"],
    [
      'a legal name of an action',
      httpBody({ name: 'a b' }),
      "An action name must be 1 to 64 letters, digits, '_' or '-'.",
    ],
    [
      'a name that is no action type',
      httpBody({ name: 'predict' }),
      'An action name must not be an action type: predict.',
    ],
    [
      'a pre-process function that is built in',
      httpBody({ pre_process_function: 'return 1;' }),
      'Unsupported pre_process_function. Only built-in functions such as connector.pre_process.openai.embedding can be used; scripts are not run.',
    ],
    [
      'a post-process function that is built in',
      httpBody({ post_process_function: 'connector.pre_process.openai.embedding' }),
      'Unsupported post_process_function. Only built-in functions such as connector.post_process.openai.embedding can be used; scripts are not run.',
    ],
    [
      'a known retry policy',
      httpBody({}, { client_config: { retry_backoff_policy: 'x' } }),
      'Unsupported retry backoff policy',
    ],
    [
      'no command',
      mcpBody({ command: ['npx', 'x'] }),
      "A connector cannot have a command: servers that run as local processes come only from the operator's configuration file. Give the url of a server instead.",
    ],
    [
      'no access control',
      mcpBody({ access_mode: 'public' }),
      'You cannot specify connector access control parameters because the Security plugin or connector access control is disabled on your cluster.',
    ],
    [
      'no roles',
      mcpBody({ backend_roles: [] }),
      'You cannot specify connector access control parameters because the Security plugin or connector access control is disabled on your cluster.',
    ],
    ['an id without underscore first', mcpBody({ connector_id: '_create' }), "connector id must not start with '_'"],
    [
      'no parameters in headers of MCP',
      mcpBody({ headers: { A: '${parameters.x}' } }),
      "Header 'A' cannot use ${parameters.*} placeholders in MCP connectors.",
    ],
    [
      'no parameters in sensitive headers',
      httpBody({ headers: { Cookie: '${parameters.x}' } }),
      "Header 'Cookie' cannot use ${parameters.*} placeholders for security reasons. Use ${credential.*} instead.",
    ],
    [
      'the credentials its headers use',
      mcpBody({ credential: { api_key: 'v' }, headers: { 'X-Key': '${credential.api_kye}' } }),
      "Header 'X-Key' uses ${credential.api_kye}, but the credential 'api_kye' is not given. Give it a value in credential.",
    ],
    [
      'no credential in a url',
      httpBody({ url: 'https://api.example.com/?k=${credential.key}' }),
      "Credential 'key' is used in the url of action PREDICT. A credential can only be used in headers; use it in one of them.",
    ],
    [
      'no credential in a body',
      httpBody({ request_body: '{"k":"${credential.key}"}' }),
      "Credential 'key' is used in the request_body of action PREDICT. A credential can only be used in headers; use it in one of them.",
    ],
    [
      'no credential in the url of MCP',
      mcpBody({ url: 'https://mcp.example.com/${credential.k}' }),
      "Credential 'k' is used in the url. A credential can only be used in headers; use it in one of them.",
    ],
    [
      'a host that its own parameters fill',
      httpBody({ url: 'https://${parameters.host}/v1' }),
      "Parameter 'host' fills the host of the connector url, so the connector's own parameters must hold a value for it.",
    ],
    [
      'no query in the url of MCP',
      mcpBody({ url: 'https://mcp.example.com/?a=b' }),
      'The url of an MCP connector must not have a query or a fragment. Put a query into parameters.endpoint, such as /mcp?tenant=a.',
    ],
    [
      'a path as endpoint',
      mcpBody({ parameters: { endpoint: '/a b' } }),
      'parameters.endpoint must be a path such as /mcp, without spaces, backslashes and #.',
    ],
    [
      'passthrough of no credentials of the caller',
      mcpBody({ passthrough_headers: ['Authorization'] }),
      "passthrough_headers cannot name 'Authorization': it identifies the caller here or belongs to the transport.",
    ],
    [
      'passthrough of no header of the transport',
      mcpBody({ passthrough_headers: ['mcp-session-id'] }),
      "passthrough_headers cannot name 'mcp-session-id': it identifies the caller here or belongs to the transport.",
    ],
    [
      'legal names to pass through',
      mcpBody({ passthrough_headers: ['a b'] }),
      'passthrough_headers must hold valid HTTP header names.',
    ],
    ['a known sign-in', mcpBody({ auth: { type: 'saml' } }), 'auth.type must be oauth2.'],
    [
      'a known grant',
      mcpBody({ auth: { type: 'oauth2', grant_type: 'password' } }),
      'auth.grant_type must be one of [authorization_code, client_credentials].',
    ],
    [
      'known members of auth',
      mcpBody({ auth: { type: 'oauth2', secret: 'x' } }),
      "auth has no member 'secret'. Its members are [type, grant_type, per_user, allow, client_id, signing_algorithm, token_endpoint_auth_method, scope, client_metadata_url, client_secret, private_key].",
    ],
    [
      'no secret in auth',
      mcpBody({ auth: { type: 'oauth2', client_secret: 'literal' } }),
      'auth.client_secret must be a template such as ${credential.client_secret}, with the secret itself in credential.',
    ],
    [
      'the credential auth names',
      mcpBody({ auth: { type: 'oauth2', private_key: '${credential.pk}' } }),
      'auth.private_key uses ${credential.pk}, which has no value. Give it in credential.',
    ],
    ['a text as client id', mcpBody({ auth: { type: 'oauth2', client_id: 5 } }), 'auth.client_id must be a string.'],
    [
      'a flag as per_user',
      mcpBody({ auth: { type: 'oauth2', per_user: 'yes' } }),
      'auth.per_user must be true or false.',
    ],
    [
      'known faults to tolerate',
      mcpBody({ auth: { type: 'oauth2', allow: ['all'] } }),
      'auth.allow must be a list of [issuer_mismatch, no_pkce_metadata].',
    ],
  ])('needs %s', async (_, body, message) => {
    expect(await failure(body)).toEqual({ message, statusCode: 400, exception: 'IllegalArgumentException' });
  });

  it.each<[string, JsonObject, string]>([
    ['name', mcpBody({ name: {} }), 'name must be a string.'],
    ['parameters', mcpBody({ parameters: [] }), 'parameters must be an object.'],
    ['credential', mcpBody({ credential: 'x' }), 'credential must be an object whose values are strings.'],
    ['a credential', mcpBody({ credential: { a: { b: 'c' } } }), "credential 'a' must be a string."],
    ['headers', mcpBody({ headers: [] }), 'headers must be an object whose values are strings.'],
    ['a header', mcpBody({ headers: { A: null } }), "headers 'A' must be a string."],
    ['actions', httpBody({}, { actions: {} }), 'actions must be an array.'],
    ['an action', httpBody({}, { actions: ['x'] }), 'Each of actions must be an object.'],
    [
      'request_body',
      httpBody({ request_body: { a: 1 } }),
      'request_body must be a string that holds the JSON template.',
    ],
    ['auth', mcpBody({ auth: 'oauth2' }), 'auth must be an object.'],
    [
      'passthrough_headers',
      mcpBody({ passthrough_headers: 'a' }),
      'passthrough_headers must be an array of header names.',
    ],
  ])('tells of the wrong shape of %s', async (_, body, message) => {
    expect(await failure(body)).toEqual({ message, statusCode: 400, exception: 'ParsingException' });
  });

  it('checks in the documented order', async () => {
    expect((await failure({})).message).toBe('Connector name is null');
    expect((await failure({ name: 'a' })).message).toBe('Connector version is null');
    expect((await failure({ name: 'a', version: 1 })).message).toBe('Connector protocol is null');
    expect((await failure({ name: 'a', version: 1, protocol: 'x' })).message).toBe(
      'Connector credential is null or empty list',
    );
    const script = { action_type: 'predict', method: 'POST', url: 'u', pre_process_function: 'x' };
    const wrong = { name: 'a', version: 1, protocol: 'x', credential: { k: 'v' } };
    expect((await failure({ ...wrong, actions: [script] })).message).toMatch(/^Unsupported pre_process_function/);
    expect((await failure(wrong)).message).toMatch(/^Unsupported connector protocol/);
    expect((await failure({ name: 'a', version: 1, protocol: 'mcp_sse' })).message).toBe(
      'MCP Connector url is null or blank',
    );
  });

  it('repeats no value of a credential in an error', async () => {
    const { message } = await failure(
      mcpBody({ credential: { t: 'tok-9\r\nX-Admin: 1' }, headers: { Authorization: 'Bearer ${credential.t}' } }),
    );
    expect(message).toMatch(/^Header 'Authorization' cannot be sent: The value of credential 't'/);
    expect(message).not.toContain('tok-9');
  });

  it.each([
    'http://169.254.169.254/latest',
    'http://metadata.google.internal/',
    'file:///etc/passwd',
    'http://user:pw@127.0.0.1/',
    'gopher://x',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://10.0.0.1/',
    'http://example.com/',
    'not an address',
    'https://[::ffff:127.0.0.1]/',
  ])('refuses to point at %s', async (url) => {
    for (const body of [mcpBody({ url }), httpBody({ url })]) {
      const { message, statusCode } = await failure(body);
      expect(statusCode).toBe(400);
      expect(message).toMatch(/^Connector URL is not matching the trusted connector endpoint regex\. ./);
      expect(message).not.toContain('pw');
    }
  });

  it('names the setting that would allow an address', async () => {
    expect((await failure(mcpBody({ url: 'http://10.0.0.1:8080' }))).message).toContain(
      'plugins.ml_commons.trusted_connector_private_endpoints_regex',
    );
  });

  it('is refused while remote inference is off', async () => {
    const name = 'plugins.ml_commons.remote_inference.enabled';
    await rig.settings.update({ persistent: { [name]: false } });
    expect(await failure(mcpBody())).toMatchObject({
      statusCode: 400,
      message:
        'Remote Inference is currently disabled. To enable it, update the setting "plugins.ml_commons.remote_inference_enabled" to true.',
    });
    await rig.settings.update({ persistent: { [name]: null } });
  });

  it('takes access control members once that is on', async () => {
    const name = 'plugins.ml_commons.connector_access_control_enabled';
    await rig.settings.update({ persistent: { [name]: true } });
    const id = await rig.create(mcpBody({ access_mode: 'private' }));
    expect(await rig.connectors.get(OPEN_PRINCIPAL, id)).toMatchObject({ access: 'private' });
    expect((await failure(mcpBody({ access_mode: 'restricted' }))).message).toMatch(/at least one backend role/);
    expect((await failure(mcpBody({ access_mode: 'x' }))).message).toMatch(/^access_mode must be one of/);
    await rig.settings.update({ persistent: { [name]: null } });
  });

  it('follows the trusted list', async () => {
    const list = 'plugins.ml_commons.trusted_connector_endpoints_regex';
    await rig.settings.update({ persistent: { [list]: [] } });
    expect(await failure(mcpBody())).toEqual({
      message:
        'Trusted connector endpoints regex is not configured. Please set plugins.ml_commons.trusted_connector_endpoints_regex.',
      statusCode: 400,
      exception: 'IllegalArgumentException',
    });
    await rig.settings.update({
      persistent: { [list]: ['https://mcp\\.example\\.com', 'https://api\\.example\\.com/.*'] },
    });
    await rig.create(mcpBody());
    await rig.create(httpBody({ url: 'https://api.example.com/models/${parameters.model}' }));
    expect((await failure(mcpBody({ url: 'https://other.example.com' }))).message).toContain(list);
    await rig.settings.update({ persistent: { [list]: ['https://mcp\\.example\\.com/mcp'] } });
    await rig.create(mcpBody());
    await rig.settings.update({ persistent: { [list]: null } });
  });
});
