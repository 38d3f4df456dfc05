import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { DeclaredServers } from '../../src/connectors/declared/declared-servers.ts';
import { createConnectors } from '../../src/connectors/service.ts';
import type { Connectors } from '../../src/connectors/types.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import { newKeyText, readKey } from '../../src/secrets/master-key.ts';
import { createVault } from '../../src/secrets/vault.ts';
import { createSettings } from '../../src/settings/service.ts';
import type { Settings } from '../../src/settings/types.ts';
import { createAuditStore } from '../../src/store/audit.ts';
import { createDocuments, type Documents } from '../../src/store/documents.ts';
import { createSettingStore } from '../../src/store/settings.ts';
import { createAudit } from '../../src/telemetry/audit.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor, type Redactor } from '../../src/telemetry/redactor.ts';
import { sqliteDatabase } from '../support/databases.ts';

export interface Rig {
  readonly connectors: Connectors;
  readonly documents: Documents;
  readonly settings: Settings;
  readonly redactor: Redactor;
  /** Everything that was logged. */
  readonly lines: string[];
  readonly dataDir: string;
  /** Rows of the audit table, newest first, as `action outcome connector principal`. */
  audit(): Promise<string[]>;
  create(body: JsonObject): Promise<string>;
  close(): Promise<void>;
}

/** The room on a real store, vault and HTTP client, in open mode unless told otherwise. */
export async function startRig({
  openMode = true,
  redactor = createRedactor(),
  declared,
}: {
  openMode?: boolean;
  redactor?: Redactor;
  declared?: DeclaredServers;
} = {}): Promise<Rig> {
  const fresh = await sqliteDatabase();
  const { database } = fresh;
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const documents = createDocuments(database);
  const settings = await createSettings({ store: createSettingStore(database), environment: {} });
  const outbound = createOutbound();
  const auditStore = createAuditStore(database);
  const connectors = createConnectors({
    documents,
    vault: createVault(readKey(newKeyText(), 'the key of the test')),
    settings,
    outbound,
    redactor,
    audit: createAudit({ log, sink: auditStore }),
    openMode: () => openMode,
    log,
    ...(declared && { declared }),
  });
  return {
    connectors,
    documents,
    settings,
    redactor,
    lines,
    dataDir: fresh.options.dataDir,
    audit: async () =>
      (await auditStore.list(100)).map(({ action, outcome, connectorId, principal }) =>
        [action, outcome, connectorId, principal].join(' '),
      ),
    create: async (body) => (await connectors.create(OPEN_PRINCIPAL, body)).connector_id,
    close: async () => {
      await outbound.close();
      await fresh.dispose();
    },
  };
}

interface SeenRequest {
  readonly method: string;
  readonly url: string;
  /** Names and values alternately, as they came. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface Target {
  readonly url: string;
  readonly requests: SeenRequest[];
  close(): Promise<void>;
}

type Reply = { status?: number; headers?: Record<string, string>; body?: string } | 'hang up';

/** A server that records what reaches it and gives its replies in turn; the last one repeats. */
export async function startTarget(...replies: Reply[]): Promise<Target> {
  const requests: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request;
      requests.push({ method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString('utf8') });
      answer(replies[Math.min(requests.length, replies.length) - 1] ?? {}, response);
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

function answer(reply: Reply, response: ServerResponse): void {
  if (reply === 'hang up') {
    response.destroy();
    return;
  }
  response.writeHead(reply.status ?? 200, { 'content-type': 'application/json', ...reply.headers });
  response.end(reply.body ?? '{}');
}

/** A minimal MCP connector, changed by `members`. */
export function mcpBody(members: JsonObject = {}): JsonObject {
  return { name: 'weather', version: 1, protocol: 'mcp_streamable_http', url: 'https://mcp.example.com', ...members };
}

/** A minimal `http` connector with one predict action, changed by `members`. */
export function httpBody(action: JsonObject = {}, members: JsonObject = {}): JsonObject {
  return {
    name: 'chat',
    version: '1',
    protocol: 'http',
    credential: { key: 'secret-key' },
    actions: [
      {
        action_type: 'predict',
        method: 'POST',
        url: 'https://api.example.com/v1/chat/completions',
        headers: { Authorization: 'Bearer ${credential.key}' },
        request_body: '{"prompt":"${parameters.prompt}"}',
        ...action,
      },
    ],
    ...members,
  };
}
