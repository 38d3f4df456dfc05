import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import packageJson from '../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import { StartupError } from './errors.ts';
import { isLoopback } from './http/open-mode.ts';
import { agentRoutes } from './http/routes/agents.ts';
import { apiKeyRoutes } from './http/routes/api-keys.ts';
import { auditRoutes } from './http/routes/audit.ts';
import { connectionRoutes } from './http/routes/connections.ts';
import { connectorRoutes } from './http/routes/connectors.ts';
import { eventRoutes } from './http/routes/events.ts';
import { memoryRoutes } from './http/routes/memory.ts';
import { metricsRoutes } from './http/routes/metrics.ts';
import { modelGroupRoutes } from './http/routes/model-groups.ts';
import { modelRoutes } from './http/routes/models.ts';
import { operationRoutes } from './http/routes/operations.ts';
import { securityRoutes } from './http/routes/security.ts';
import { serverContentRoutes } from './http/routes/server-content.ts';
import { settingsRoutes } from './http/routes/settings.ts';
import { taskRoutes } from './http/routes/tasks.ts';
import { createServer } from './http/server.ts';
import { selfSignedTls, type Tls, tlsFromFiles } from './http/tls.ts';
import { createServices, type ServiceOverrides, type Services } from './services.ts';
import type { Logger } from './telemetry/logger.ts';

export interface AppOverrides extends ServiceOverrides {
  /** Collect the API description; `app.swagger()` gives it. */
  readonly describe?: boolean;
  /** Serve TLS with a certificate made for this run. */
  readonly tlsSelfSigned?: boolean;
}

export interface App {
  readonly app: FastifyInstance;
  readonly services: Services;
  readonly log: Logger;
  /** Stops accepting, lets running requests finish, closes MCP sessions, connections and the database. */
  close(): Promise<void>;
}

const PREFIX = '/_plugins/_ml';
const AGENT_PREFIX = '/_plugins/_agent';
/** Together below the ten seconds that container engines leave between SIGTERM and SIGKILL. */
const REQUESTS_DEADLINE_MS = 6000;
const RUNS_DEADLINE_MS = 500;
const SESSIONS_DEADLINE_MS = 1500;

/**
 * The whole application, not yet listening. The only place that knows every room.
 * @throws StartupError when the configuration, the key or the database does not allow a start.
 */
export async function buildApp(config: Config, overrides: AppOverrides = {}): Promise<App> {
  if (!mayHoldUsers(config)) refuseOpenElsewhere(config, 'open');
  const services = await createServices(config, overrides);
  const { log, redactor } = services;
  try {
    refuseOpenElsewhere(config, services.identity.authenticator.mode());
    const app = await createServer({
      log,
      redactor,
      authenticator: services.identity.authenticator,
      authorization: services.identity.authorization,
      limits: services.limits,
      metrics: services.metrics,
      tls: await tlsOf(config, overrides, log),
      passthroughEnabled: () => services.settings.flag('plugins.ml_commons.mcp_header_passthrough_enabled'),
      routes: (server) => registerRoutes(server, services),
      ...(overrides.describe ? { describeAs: packageJson.version } : {}),
    });
    app.addHook('onListen', async () => {
      services.sessions.start();
      await services.background.start();
    });
    await app.ready();
    return { app, services, log, close: () => close(app, services) };
  } catch (error) {
    await services.auditRetention.stop();
    await services.background.stop().finally(() => services.database.close());
    throw error;
  }
}

/** A start that is refused for want of a configuration leaves no trace: no database, no key. */
function mayHoldUsers({ apiKey, firstAdmin, openId, databaseUrl, dataDir }: Config): boolean {
  const configured = apiKey !== undefined || firstAdmin !== undefined || openId !== undefined;
  return configured || databaseUrl !== undefined || existsSync(join(dataDir, 'tenon.db'));
}

function refuseOpenElsewhere({ host }: Config, mode: 'open' | 'authenticated'): void {
  if (mode === 'authenticated' || isLoopback(host)) return;
  throw new StartupError(
    `TENON_HOST is ${host}, but no authentication is configured, and without it only loopback is served: ` +
      'set TENON_ADMIN_PASSWORD for a first user, or TENON_API_KEY, or TENON_OIDC_ISSUER with TENON_OIDC_AUDIENCE; ' +
      'or start on 127.0.0.1 and add a user with `tenon users add`',
  );
}

async function tlsOf({ tls, host }: Config, overrides: AppOverrides, log: Logger): Promise<Tls | undefined> {
  if (!overrides.tlsSelfSigned) return tls && tlsFromFiles(tls, { log });
  if (tls === undefined) return selfSignedTls(host, { log });
  throw new StartupError('--tls-self-signed and TENON_TLS_CERT exclude each other: leave out one of them');
}

async function registerRoutes(server: FastifyInstance, services: Services): Promise<void> {
  const { master, background, connectors, sessions, settings, models, modelGroups, tasks, agents, memory } = services;
  const clusterUuid = createHash('sha256').update(`cluster ${master.id}`).digest('base64url').slice(0, 22);
  const build = { version: packageJson.version, date: await buildDate() };
  await server.register(operationRoutes, { clusterUuid, build, checkStore: background.beat, openApi: readDescription });
  await server.register(securityRoutes, { directory: services.identity.directory });
  await server.register(apiKeyRoutes, { prefix: PREFIX, apiKeys: services.identity.apiKeys });
  await server.register(settingsRoutes, { settings, audit: services.audit });
  await server.register(connectorRoutes, { prefix: PREFIX, connectors });
  await server.register(connectionRoutes, { prefix: PREFIX, sessions, connectors });
  await server.register(eventRoutes, { prefix: PREFIX, events: services.events, connectors });
  await server.register(metricsRoutes, { metrics: services.metrics, sessions });
  await server.register(serverContentRoutes, { prefix: PREFIX, content: sessions, connectors });
  await server.register(modelRoutes, { prefix: PREFIX, models });
  await server.register(modelGroupRoutes, { prefix: PREFIX, modelGroups });
  await server.register(taskRoutes, { prefix: PREFIX, tasks });
  await server.register(auditRoutes, { prefix: PREFIX, trail: services.auditTrail, audit: services.audit });
  await server.register(memoryRoutes, { prefix: PREFIX, memory });
  const { agentPins: pins, explain } = services;
  for (const prefix of [PREFIX, AGENT_PREFIX]) await server.register(agentRoutes, { prefix, agents, pins, explain });
}

/** The build is as old as the file that runs: the bundle, or this source file. */
async function buildDate(): Promise<string> {
  const { mtime } = await stat(fileURLToPath(import.meta.url));
  return mtime.toISOString();
}

/** Beside the bundle, or one floor above it and above this file. */
async function readDescription(): Promise<string> {
  const beside = fileURLToPath(new URL('openapi.yaml', import.meta.url));
  return readFile(existsSync(beside) ? beside : fileURLToPath(new URL('../openapi.yaml', import.meta.url)), 'utf8');
}

async function close(app: FastifyInstance, services: Services): Promise<void> {
  const cut = setTimeout(() => app.cutRequests(), REQUESTS_DEADLINE_MS);
  const problems: unknown[] = [];
  const attempt = (step: () => Promise<unknown>): Promise<unknown> => step().catch((error) => problems.push(error));
  await attempt(() => app.close());
  clearTimeout(cut);
  await attempt(() => services.background.suspend(RUNS_DEADLINE_MS));
  await attempt(() => services.sessions.close(SESSIONS_DEADLINE_MS));
  await attempt(() => services.auditRetention.stop());
  await attempt(() => services.outbound.close());
  await attempt(() => services.background.stop());
  await attempt(() => services.database.close());
  for (const err of problems) services.log.error({ err }, 'a part of the server did not close cleanly');
}
