import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL as WHO } from '../../src/identity/principals.ts';
import { httpBody, mcpBody, type Rig, startRig } from './rig.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

const KEYED = { credential: { k: 'CANARY-7f3' }, headers: { 'X-Key': '${credential.k}' } };

async function keyOf(id: string): Promise<string | undefined> {
  const connector = await rig.connectors.load(id);
  return (await rig.connectors.mcpEndpoint(connector)).headers['X-Key'];
}

async function addModel(id: string, connectorId: string, state: string): Promise<void> {
  const references = [{ kind: 'connector', id: connectorId }] as const;
  await rig.documents.insert('model', id, { name: id, body: { name: id, model_state: state }, references });
}

describe('a stored connector', () => {
  it('is shown as it was given, with parameters and version as texts', async () => {
    const before = Date.now();
    const id = await rig.create(
      mcpBody({
        description: 'd',
        version: 2,
        parameters: { endpoint: '/mcp', n: 5, list: ['a'] },
        unknown: 'x',
        ...KEYED,
      }),
    );
    expect(id).toMatch(/^[0-9A-Za-z]{20}$/);
    const shown = await rig.connectors.get(WHO, id);
    expect(shown).toEqual({
      name: 'weather',
      version: '2',
      description: 'd',
      protocol: 'mcp_streamable_http',
      url: 'https://mcp.example.com',
      headers: { 'X-Key': '${credential.k}' },
      parameters: { endpoint: '/mcp', n: '5', list: '["a"]' },
      created_time: expect.any(Number),
      last_updated_time: shown.created_time,
    });
    expect(shown.created_time).toBeGreaterThanOrEqual(before);
  });

  it('shows the actions of http normalised, and client_config filled in only where it was given', async () => {
    const action = { name: 'chat', post_process_function: 'connector.post_process.mlcommons.passthrough' };
    const id = await rig.create(httpBody(action, { client_config: { read_timeout: 5 } }));
    expect(await rig.connectors.get(WHO, id)).toMatchObject({
      actions: [{ action_type: 'PREDICT', method: 'POST', ...action }],
      client_config: { max_connection: 30, read_timeout: 5, max_retry_times: 0 },
    });
    expect(await rig.connectors.get(WHO, await rig.create(httpBody()))).not.toHaveProperty('client_config');
  });

  it('keeps the members of MCP servers', async () => {
    const members = {
      passthrough_headers: ['X-Tenant'],
      auth: { type: 'oauth2', client_secret: '${credential.s}', allow: ['issuer_mismatch'], per_user: true },
    };
    const id = await rig.create(mcpBody({ ...members, credential: { s: 'v' } }));
    expect(await rig.connectors.get(WHO, id)).toMatchObject(members);
  });

  it('never shows a credential, and holds none in clear', async () => {
    const id = await rig.create(mcpBody(KEYED));
    expect(JSON.stringify(await rig.connectors.get(WHO, id))).not.toContain('CANARY-7f3');
    expect(JSON.stringify(await rig.documents.get('connector', id))).not.toContain('CANARY-7f3');
    for (const file of ['tenon.db', 'tenon.db-wal']) {
      expect((await readFile(join(rig.dataDir, file))).includes('CANARY-7f3')).toBe(false);
    }
    expect(await rig.documents.sealedCredential('connector', id)).toMatch(/^v1\./);
    expect(rig.lines.join('')).not.toContain('CANARY-7f3');
    expect(rig.redactor.clean('x CANARY-7f3')).toBe('x [redacted]');
  });

  it('takes an id of the caller, once', async () => {
    expect(await rig.create(mcpBody({ connector_id: 'mine' }))).toBe('mine');
    for (const members of [{}, { dry_run: true }]) {
      await expect(rig.create(mcpBody({ connector_id: 'mine', ...members }))).rejects.toMatchObject({
        statusCode: 409,
        exception: 'OpenSearchStatusException',
        message: "connector id 'mine' already exists",
      });
    }
  });

  it('is not stored by a dry run', async () => {
    const before = await rig.documents.count('connector');
    expect(await rig.create(mcpBody({ dry_run: true, connector_id: 'dry' }))).toBe('dryRunConnector');
    await expect(rig.create(mcpBody({ dry_run: true, name: null }))).rejects.toThrow('Connector name is null');
    expect(await rig.documents.count('connector')).toBe(before);
  });

  it('is not found under another id', async () => {
    const missing = { statusCode: 404, message: 'Failed to find connector with the provided connector id: none' };
    await expect(rig.connectors.get(WHO, 'none')).rejects.toMatchObject(missing);
    await expect(rig.connectors.load('none')).rejects.toMatchObject(missing);
    await expect(rig.connectors.update(WHO, 'none', {})).rejects.toMatchObject(missing);
    expect(await rig.connectors.find('none')).toBeUndefined();
    expect(await rig.connectors.delete(WHO, 'none')).toMatchObject({ id: 'none', result: 'not_found' });
  });

  it('tells what headers it does not send', async () => {
    const id = await rig.create(mcpBody({ headers: { Accept: 'text/html', 'mcp-session-id': 'zzz', A: '1' } }));
    expect(rig.lines.find((line) => line.includes(id) && line.includes('are not sent'))).toContain(
      '"Accept","mcp-session-id"',
    );
    const endpoint = await rig.connectors.mcpEndpoint(await rig.connectors.load(id));
    expect(endpoint.headers).toEqual({ A: '1' });
  });
});

describe('an update', () => {
  it('merges parameters and replaces the rest', async () => {
    const id = await rig.create(
      mcpBody({ parameters: { a: '1', b: '2' }, headers: { A: '1', B: '2' }, client_config: { read_timeout: 5 } }),
    );
    const outcome = await rig.connectors.update(WHO, id, {
      name: 'renamed',
      description: 'd2',
      version: 3,
      parameters: { b: 3, c: null },
      headers: { C: '3' },
      client_config: { max_connection: 2 },
      url: null,
    });
    expect(outcome).toMatchObject({ id, result: 'updated', version: 2 });
    expect(await rig.connectors.get(WHO, id)).toMatchObject({
      name: 'renamed',
      description: 'd2',
      version: '3',
      url: 'https://mcp.example.com',
      parameters: { a: '1', b: '3', c: 'null' },
      headers: { C: '3' },
      client_config: { max_connection: 2, read_timeout: 30 },
    });
    expect((await rig.documents.get('connector', id))?.version).toBe(2);
    expect(await rig.documents.findByName('connector', 'renamed')).toMatchObject({ id });
  });

  it('replaces actions', async () => {
    const id = await rig.create(httpBody());
    const action = { action_type: 'execute', method: 'get', url: 'https://api.example.com/x' };
    await rig.connectors.update(WHO, id, { actions: [action] });
    expect((await rig.connectors.load(id)).actions).toEqual([{ ...action, action_type: 'EXECUTE', method: 'GET' }]);
    await expect(rig.connectors.update(WHO, id, { actions: [] })).rejects.toThrow('No actions configured');
  });

  it.each([{}, { description: 'd2' }, { credential: {} }, { credential: null, version: 2 }])(
    'without a credential keeps the stored one: %j',
    async (body) => {
      const id = await rig.create(mcpBody(KEYED));
      await rig.connectors.update(WHO, id, body);
      expect(await keyOf(id)).toBe('CANARY-7f3');
    },
  );

  it('with a credential replaces the whole of it', async () => {
    const id = await rig.create(mcpBody(KEYED));
    await rig.connectors.update(WHO, id, { credential: { k: 'new', other: 'o' } });
    expect(await keyOf(id)).toBe('new');
    await expect(rig.connectors.update(WHO, id, { credential: { other: 'o' } })).rejects.toThrow(
      "Header 'X-Key' uses ${credential.k}, but the credential 'k' is not given.",
    );
    expect(await keyOf(id)).toBe('new');
  });

  it('does not move a credential to another address', async () => {
    const id = await rig.create(mcpBody(KEYED));
    await expect(rig.connectors.update(WHO, id, { url: 'https://evil.example.com' })).rejects.toMatchObject({
      statusCode: 400,
      message:
        'This update moves the connector from https://mcp.example.com to https://evil.example.com without giving credential. A credential never follows an address: give credential in the same update.',
    });
    expect(await rig.connectors.load(id)).toMatchObject({ url: 'https://mcp.example.com' });
    await rig.connectors.update(WHO, id, { url: 'https://mcp.example.com/v2/' });
    expect(await keyOf(id)).toBe('CANARY-7f3');
    await rig.connectors.update(WHO, id, { url: 'https://other.example.com', credential: { k: 'theirs' } });
    expect(await keyOf(id)).toBe('theirs');
  });

  it('does not move it by a parameter that fills the host', async () => {
    const url = 'https://${parameters.host}/v1';
    const id = await rig.create(httpBody({ url }, { parameters: { host: 'api.example.com' } }));
    await expect(rig.connectors.update(WHO, id, { parameters: { host: 'evil.example.com' } })).rejects.toThrow(
      'from https://api.example.com to https://evil.example.com without giving credential',
    );
    await rig.connectors.update(WHO, id, { parameters: { host: 'b.example.com' }, credential: { key: 'x' } });
  });

  it('moves a connector that holds none', async () => {
    const id = await rig.create(mcpBody());
    await rig.connectors.update(WHO, id, { url: 'https://other.example.com' });
    expect(await rig.connectors.load(id)).toMatchObject({ url: 'https://other.example.com' });
  });

  it('is checked like a create', async () => {
    const id = await rig.create(mcpBody(KEYED));
    const update = (body: Parameters<typeof rig.connectors.update>[2]) => rig.connectors.update(WHO, id, body);
    await expect(update({ url: ' ' })).rejects.toThrow(/^MCP Connector url is blank$/);
    await expect(update({ name: '' })).rejects.toThrow(/^Connector name is null$/);
    await expect(update({ protocol: 'http' })).rejects.toThrow('The protocol of a connector cannot be changed');
    await expect(update({ command: 'npx' })).rejects.toThrow('A connector cannot have a command');
    await expect(update({ url: 'http://169.254.169.254' })).rejects.toThrow(
      'Connector URL is not matching the trusted',
    );
    await expect(update({ headers: { A: '${credential.none}' } })).rejects.toThrow("credential 'none' is not given");
    await expect(update({ headers: { A: '${parameters.x}' } })).rejects.toThrow('placeholders in MCP connectors');
    await expect(update({ access_mode: 'public' })).rejects.toThrow('You cannot specify connector access control');
    await update({ protocol: 'mcp_streamable_http' });
    expect((await rig.documents.get('connector', id))?.version).toBe(2);
  });

  it('is refused while models that use it are deployed', async () => {
    const id = await rig.create(httpBody());
    await addModel('model-a', id, 'DEPLOYED');
    await addModel('model-b', id, 'UNDEPLOYED');
    await addModel('model-c', id, 'DEPLOYED');
    await rig.connectors.update(WHO, id, { description: 'x', name: 'renamed' });
    await expect(rig.connectors.update(WHO, id, { description: 'x', version: '2' })).rejects.toMatchObject({
      statusCode: 400,
      message: '2 models are still using this connector, please undeploy the models first: [model-a, model-c]',
    });
    await expect(rig.connectors.delete(WHO, id)).rejects.toMatchObject({
      statusCode: 409,
      exception: 'OpenSearchStatusException',
      message:
        '3 models are still using this connector, please delete or update the models first: [model-a, model-b, model-c]',
    });
    await rig.documents.delete('model', 'model-a');
    await rig.documents.delete('model', 'model-c');
    await rig.connectors.update(WHO, id, { version: '2' });
    await rig.documents.delete('model', 'model-b');
    expect(await rig.connectors.delete(WHO, id)).toMatchObject({ result: 'deleted' });
  });

  it('loses nothing when several come at once', async () => {
    const id = await rig.create(mcpBody(KEYED));
    const names = ['a', 'b', 'c', 'd'];
    await Promise.all(names.map((name) => rig.connectors.update(WHO, id, { parameters: { [name]: name } })));
    expect((await rig.connectors.load(id)).parameters).toEqual(Object.fromEntries(names.map((name) => [name, name])));
  });
});

describe('a change', () => {
  it('makes a newer revision, also when the record is deleted and made anew under its id', async () => {
    const id = await rig.create(mcpBody({ connector_id: 'again' }));
    const revision = async () => (await rig.connectors.load(id)).revision;
    const first = await revision();
    await rig.connectors.update(WHO, id, { description: 'x' });
    const second = await revision();
    expect(second).toBeGreaterThan(first);
    await rig.connectors.delete(WHO, id);
    await rig.create(mcpBody({ connector_id: 'again' }));
    expect(await revision()).toBeGreaterThan(second);
  });

  it('is told to listeners before it is answered, and is audited', async () => {
    const told: string[] = [];
    rig.connectors.onChange(async (id, change) => {
      await new Promise((resolve) => setImmediate(resolve));
      told.push(`${id} ${change}`);
    });
    rig.connectors.onChange(() => {
      throw new Error('a listener failed');
    });
    const id = await rig.create(mcpBody({ connector_id: 'watched' }));
    await rig.connectors.update(WHO, id, { description: 'x' });
    expect(told).toEqual(['watched created', 'watched updated']);
    await rig.connectors.delete(WHO, id);
    await rig.connectors.delete(WHO, id);
    expect(told).toEqual(['watched created', 'watched updated', 'watched deleted']);
    expect((await rig.audit()).filter((row) => row.includes('watched'))).toEqual([
      'connector.delete ok watched open',
      'connector.update ok watched open',
      'connector.create ok watched open',
    ]);
    expect(rig.lines.some((line) => line.includes('a listener failed'))).toBe(true);
    expect(await rig.documents.sealedCredential('connector', id)).toBeUndefined();
  });
});
