import type { DestinationStream } from 'pino';
import { createConnectorAgents } from './agents/connector-agents.ts';
import { createExplain, type Explain } from './agents/explain.ts';
import { type AgentPins, createAgentPins } from './agents/pins.ts';
import { type Agents, createAgents } from './agents/service.ts';
import type { Config } from './config.ts';
import type { ConfigFile } from './connectors/declared/declared-files.ts';
import { type DeclaredServers, readDeclaredServers } from './connectors/declared/declared-servers.ts';
import { createConnectors } from './connectors/service.ts';
import type { Connectors } from './connectors/types.ts';
import { isCatalogueError, StartupError } from './errors.ts';
import { makeFolder } from './folder.ts';
import { createLimits, type Limits } from './identity/limits.ts';
import type { PasswordHasher } from './identity/passwords.ts';
import { createIdentity, type Identity } from './identity/service.ts';
import { newId } from './ids.ts';
import { createModelClient } from './llm/client.ts';
import { countModelCalls } from './llm/counted-client.ts';
import { createMcpSessions } from './mcp/sessions.ts';
import type { McpSessions } from './mcp/types.ts';
import { createConversations } from './memory/conversations.ts';
import { createMemory, type Memory } from './memory/service.ts';
import { createModelGroups, type ModelGroups } from './models/groups.ts';
import { createModels, type Models } from './models/service.ts';
import { createOutbound } from './outbound/fetch.ts';
import type { Outbound } from './outbound/types.ts';
import { createJournal } from './runs/journal.ts';
import { type Recovery, startRecovery } from './runs/recovery.ts';
import { createRunRequests } from './runs/requests.ts';
import { verifyMasterKey } from './secrets/key-check.ts';
import { openKeystore } from './secrets/keystore.ts';
import type { MasterKey } from './secrets/types.ts';
import { createVault } from './secrets/vault.ts';
import { createSettings } from './settings/service.ts';
import type { Settings } from './settings/types.ts';
import { createApiKeyStore } from './store/api-keys.ts';
import { createAuditStore } from './store/audit.ts';
import { createConnectionStore } from './store/connections.ts';
import { claimFolder, type FolderClaim } from './store/data-folder.ts';
import { type Database, openDatabase } from './store/database.ts';
import { createDocuments, type Documents } from './store/documents.ts';
import { createIdentityStore } from './store/identity.ts';
import { createMasterKeys } from './store/master-keys.ts';
import { createMcpToolStore } from './store/mcp-tools.ts';
import { createMemoryStore } from './store/memory.ts';
import { migrate } from './store/migrator.ts';
import { createProcessStore } from './store/processes.ts';
import { createRunRequestStore } from './store/run-requests.ts';
import { createRunStore } from './store/runs.ts';
import { createSettingStore } from './store/settings.ts';
import { createSignInFailureStore } from './store/sign-in-failures.ts';
import { createTaskStore } from './store/tasks.ts';
import { createToolPinStore } from './store/tool-pins.ts';
import { createTasks, type Tasks } from './tasks/service.ts';
import { type Audit, createAudit } from './telemetry/audit.ts';
import { type AuditRetention, createAuditRetention } from './telemetry/audit-retention.ts';
import { type AuditTrail, createAuditTrail } from './telemetry/audit-trail.ts';
import { createEventBus, type EventBus } from './telemetry/event-bus.ts';
import { createLogger, type Logger } from './telemetry/logger.ts';
import { createMetrics, type Metrics } from './telemetry/metrics.ts';
import { createRedactor, type Redactor } from './telemetry/redactor.ts';
import { createToolPins } from './tools/pins.ts';
import { createToolRegistry } from './tools/registry.ts';

export interface ServiceOverrides {
  /** Takes the log lines in place of standard output. */
  readonly logStream?: DestinationStream;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly hasher?: PasswordHasher;
  /** Sees the SQL of every statement (SQLite). */
  readonly onStatement?: (sql: string) => void;
}

export interface Services {
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly database: Database;
  readonly master: MasterKey;
  readonly documents: Documents;
  readonly settings: Settings;
  readonly limits: Limits;
  readonly audit: Audit;
  readonly auditTrail: AuditTrail;
  readonly auditRetention: AuditRetention;
  readonly outbound: Outbound;
  readonly identity: Identity;
  readonly connectors: Connectors;
  readonly sessions: McpSessions;
  readonly events: EventBus;
  readonly metrics: Metrics;
  readonly models: Models;
  readonly modelGroups: ModelGroups;
  readonly tasks: Tasks;
  readonly agents: Agents;
  readonly agentPins: AgentPins;
  readonly explain: Explain;
  readonly memory: Memory;
  /** What this process does besides requests: it says that it lives, and follows the settings. */
  readonly background: Pick<Recovery, 'beat' | 'stop'> & {
    /** Takes over the runs that stopped servers have left. */
    start(): Promise<void>;
    /** Stops the runs nobody waits for, so that another server goes on with them. */
    suspend(deadlineMs: number): Promise<void>;
  };
}

const TRUSTED = 'plugins.ml_commons.trusted_connector_endpoints_regex';
const RETENTION = 'plugins.ml_commons.audit.retention_days';
const TRUSTED_PRIVATE = 'plugins.ml_commons.trusted_connector_private_endpoints_regex';

/**
 * Every room, wired: database, migrations, key, vault, settings, then the rooms from the bottom up.
 * @throws StartupError
 */
export async function createServices(config: Config, overrides: ServiceOverrides = {}): Promise<Services> {
  const redactor = createRedactor();
  const secrets = [config.apiKey, config.masterKey, config.firstAdmin?.password];
  redactor.taint(secrets.filter((secret) => secret !== undefined));
  const log = createLogger({ level: config.logLevel, redactor, file: config.logFile, stream: overrides.logStream });
  const declared = await readDeclaredServers({
    files: configFiles(config),
    variables: config.variable,
    redactor,
    log,
  });
  const opened = await openStore(config, log, overrides.onStatement);
  let claim: FolderClaim | undefined;
  const database: Database = { ...opened, close: () => opened.close().finally(() => claim?.release()) };
  try {
    await migrate(database, { mode: 'check' });
    if (database.kind === 'sqlite') claim = claimFolder(config.dataDir);
    if (claim?.alone === false) warnOfCompany(log, config.dataDir);
    return await wire(config, { ...overrides, redactor, log, declared, database, alone: claim?.alone ?? false });
  } catch (error) {
    await database.close();
    throw isCatalogueError(error) ? new StartupError(error.message) : error;
  }
}

function warnOfCompany(log: Logger, dataDir: string): void {
  log.warn(
    { dataDir },
    `Another server is running on the data folder ${dataDir}. SQLite serves one: turns of one memory are not kept in ` +
      'order between two, and what a stopped one left is not cleared up while the other runs. Stop one of them, or give ' +
      'it a TENON_DATA_DIR of its own, or use PostgreSQL (TENON_DATABASE_URL)',
  );
}

/** The database of this configuration, its folder made when it is not there. @throws StartupError */
export async function openStore(config: Config, log: Logger, onStatement?: (sql: string) => void): Promise<Database> {
  if (config.databaseUrl === undefined) makeDataFolder(config.dataDir);
  return openDatabase({ url: config.databaseUrl, dataDir: config.dataDir, log, onStatement });
}

function makeDataFolder(path: string): void {
  try {
    makeFolder(path);
  } catch (error) {
    throw new StartupError(`TENON_DATA_DIR: ${path} cannot be created (${(error as Error).message})`);
  }
}

interface Ground extends ServiceOverrides {
  readonly redactor: Redactor;
  readonly log: Logger;
  readonly declared: DeclaredServers;
  readonly database: Database;
  /** No other process serves this database; on PostgreSQL nobody can know. */
  readonly alone: boolean;
}

async function wire(
  config: Config,
  { redactor, log, declared, database, alone, hasher, now = Date.now }: Ground,
): Promise<Services> {
  const clock = { now };
  const masterKeys = createMasterKeys(database, clock);
  const { keystore: kind, masterKey, keyFile, keyCommand, dataDir } = config;
  const mayCreate = !(await masterKeys.any());
  const master = await openKeystore({ kind, masterKey, keyFile, keyCommand, dataDir, mayCreate, log });
  const vault = createVault(master);
  await verifyMasterKey({ vault, master, masterKeys });

  const processId = newId();
  const company = database.kind === 'postgres' ? 'shared' : alone ? 'alone' : 'unknown';
  const processes = createProcessStore(database, clock);
  const environment = settingsOf(config);
  const settings = await createSettings({
    store: createSettingStore(database, clock),
    environment,
    clearTransient: company === 'alone',
  });
  const runs = createRunStore(database, { ...clock, processId });
  const recovery = await startRecovery({ processes, runs, processId, company, log });
  const stopFollowing = settings.follow((err) => log.warn({ err }, 'the settings could not be read again'));
  const limits = createLimits({ settings, now });
  const auditStore = createAuditStore(database, clock);
  const audit = createAudit({ log, sink: auditStore, redactor });
  const auditTrail = createAuditTrail({ store: auditStore, now });
  const auditRetention = createAuditRetention({
    store: auditStore,
    days: () => Number(settings.text(RETENTION)),
    log,
    now,
  });
  const documents = createDocuments(database, clock);
  const outbound = createOutbound({ log, clean: (text) => redactor.clean(text) });
  const identity = await createIdentity({
    store: createIdentityStore(database, clock),
    keys: createApiKeyStore(database, clock),
    failures: createSignInFailureStore(database),
    outbound,
    audit,
    redactor,
    log,
    staticKey: config.apiKey,
    openId: config.openId,
    firstAdmin: config.firstAdmin,
    ...(hasher === undefined ? {} : { hasher }),
    now,
  });
  const openMode = () => identity.authenticator.mode() === 'open';
  const connectors = createConnectors({
    documents,
    vault,
    settings,
    outbound,
    redactor,
    audit,
    openMode,
    log,
    declared,
    now,
  });

  const events = createEventBus({ now });
  const metrics = createMetrics({ events });
  const mcpTools = createMcpToolStore(database, clock);
  const connections = createConnectionStore(database);
  const sessions = createMcpSessions({
    connectors,
    outbound,
    connections,
    mcpTools,
    settings,
    audit,
    redactor,
    log,
    now,
    events,
    metrics,
    shared: company !== 'alone',
    agentsOf: createConnectorAgents({ documents, connectors }),
  });

  const requests = createRunRequests({ store: createRunRequestStore(database, clock), audit, events, log, now });
  const tasks = createTasks({ store: createTaskStore(database, clock), requests, audit });
  const modelGroups = createModelGroups({ documents, settings, audit });
  const models = createModels({
    documents,
    connectors,
    groups: modelGroups,
    tasks,
    settings,
    audit,
    redactor,
    log,
    metrics,
    now,
  });
  const modelClient = countModelCalls(createModelClient({ models, connectors, redactor, log, now }), metrics);

  const memoryStore = createMemoryStore(database, clock);
  const conversations = createConversations({ store: memoryStore, settings });
  const memory = createMemory({ store: memoryStore, settings, audit });
  const journal = createJournal({ runs });
  const toolPins = createToolPinStore(database, clock);
  const pins = createToolPins({ store: toolPins, events, log });
  const registry = createToolRegistry({
    sessions,
    connectors,
    mcpTools,
    settings,
    pins,
    authorization: identity.authorization,
    log,
  });
  const agents = createAgents({
    database,
    documents,
    connectors,
    models,
    modelClient,
    registry,
    sessions,
    mcpTools,
    conversations,
    journal,
    requests,
    tasks,
    events,
    principalOf: identity.principalOf,
    settings,
    limits,
    audit,
    log,
  });
  const agentPins = createAgentPins({ documents, connectors, registry, store: toolPins, events, audit });
  const explain = createExplain({ documents, connectors, sessions, registry, models, settings });
  return {
    log,
    redactor,
    database,
    master,
    documents,
    settings,
    limits,
    audit,
    auditTrail,
    auditRetention,
    outbound,
    identity,
    connectors,
    sessions,
    events,
    metrics,
    models,
    modelGroups,
    tasks,
    agents,
    agentPins,
    explain,
    memory,
    background: {
      beat: recovery.beat,
      start: () => recovery.takeOver(agents.background.resume),
      suspend: agents.background.suspend,
      stop() {
        stopFollowing();
        return recovery.stop();
      },
    },
  };
}

function settingsOf({ trustedEndpoints, trustedPrivateEndpoints }: Config): Record<string, string> {
  return {
    ...(trustedEndpoints === undefined ? {} : { [TRUSTED]: JSON.stringify(trustedEndpoints) }),
    ...(trustedPrivateEndpoints === undefined ? {} : { [TRUSTED_PRIVATE]: JSON.stringify(trustedPrivateEndpoints) }),
  };
}

/** The global file first, so that the project's entries replace its own. */
function configFiles({ globalConfigFile, configFile, namedConfigFiles: named }: Config): readonly ConfigFile[] {
  return [
    { path: globalConfigFile, variable: 'TENON_GLOBAL_CONFIG', required: named.includes('TENON_GLOBAL_CONFIG') },
    { path: configFile, variable: 'TENON_CONFIG', required: named.includes('TENON_CONFIG') },
  ];
}
