import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConnectors } from '../../src/connectors/service.ts';
import type { Connectors } from '../../src/connectors/types.ts';
import { connectorRoutes } from '../../src/http/routes/connectors.ts';
import { modelGroupRoutes } from '../../src/http/routes/model-groups.ts';
import { modelRoutes } from '../../src/http/routes/models.ts';
import { taskRoutes } from '../../src/http/routes/tasks.ts';
import { createModelClient } from '../../src/llm/client.ts';
import type { ModelClient } from '../../src/llm/types.ts';
import { createModelGroups, type ModelGroups } from '../../src/models/groups.ts';
import { createModels, type Models } from '../../src/models/service.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import { createRunRequests } from '../../src/runs/requests.ts';
import * as connectorSchemas from '../../src/schemas/connectors.ts';
import * as modelGroupSchemas from '../../src/schemas/model-groups.ts';
import * as modelSchemas from '../../src/schemas/models.ts';
import * as taskSchemas from '../../src/schemas/tasks.ts';
import { newKeyText, readKey } from '../../src/secrets/master-key.ts';
import { createVault } from '../../src/secrets/vault.ts';
import { createSettings } from '../../src/settings/service.ts';
import { createAuditStore } from '../../src/store/audit.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createDocuments, type Documents } from '../../src/store/documents.ts';
import { migrate } from '../../src/store/migrator.ts';
import { createRunRequestStore } from '../../src/store/run-requests.ts';
import { createSettingStore } from '../../src/store/settings.ts';
import { createTaskStore } from '../../src/store/tasks.ts';
import { createTasks, type Tasks } from '../../src/tasks/service.ts';
import { createAudit } from '../../src/telemetry/audit.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { startEdge } from './edge.ts';
import { createRest, type Rest } from './rest.ts';

export interface ModelPlatform {
  readonly rest: Rest;
  readonly connectors: Connectors;
  readonly models: Models;
  readonly groups: ModelGroups;
  readonly tasks: Tasks;
  readonly documents: Documents;
  readonly client: ModelClient;
  /** Every log line so far. */
  readonly lines: readonly string[];
  /** Changes a cluster setting, named without its prefix. */
  set(name: string, value: string | null): Promise<void>;
  close(): Promise<void>;
}

/** Connectors, models, groups and tasks over a real socket and a SQLite file, without agents. */
export async function startModelPlatform(): Promise<ModelPlatform> {
  const dataDir = await mkdtemp(join(tmpdir(), 'tenon-models-'));
  const database = await openDatabase({ dataDir });
  await migrate(database, { mode: 'migrate' });
  const lines: string[] = [];
  const redactor = createRedactor();
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const settings = await createSettings({ store: createSettingStore(database), environment: {} });
  const audit = createAudit({ log, sink: createAuditStore(database) });
  const documents = createDocuments(database);
  const outbound = createOutbound({ log });
  const vault = createVault(readKey(newKeyText(), 'a test'));
  const now = Date.now;
  const connectors = createConnectors({
    documents,
    vault,
    settings,
    outbound,
    redactor,
    audit,
    openMode: () => true,
    log,
  });
  const requests = createRunRequests({
    store: createRunRequestStore(database),
    audit,
    events: { publish: () => undefined },
    log,
  });
  const tasks = createTasks({ store: createTaskStore(database), requests, audit });
  const groups = createModelGroups({ documents, settings, audit });
  const models = createModels({ documents, connectors, groups, tasks, settings, audit, redactor, log, now });
  const client = createModelClient({ models, connectors, redactor, log, now });
  const edge = await startEdge(async (app) => {
    const named = [connectorSchemas, modelSchemas, modelGroupSchemas, taskSchemas].flatMap((each) =>
      Object.values(each),
    );
    for (const schema of named) {
      const id = (schema as { $id?: unknown }).$id;
      if (typeof id === 'string' && app.getSchema(id) === undefined) app.addSchema(schema);
    }
    const prefix = '/_plugins/_ml';
    await app.register(connectorRoutes, { prefix, connectors });
    await app.register(modelRoutes, { prefix, models });
    await app.register(modelGroupRoutes, { prefix, modelGroups: groups });
    await app.register(taskRoutes, { prefix, tasks });
  });
  return {
    rest: createRest(edge.url),
    connectors,
    models,
    groups,
    tasks,
    documents,
    client,
    lines,
    async set(name, value) {
      await settings.update({ transient: { [`plugins.ml_commons.${name}`]: value } });
    },
    async close() {
      await edge.close();
      await outbound.close();
      await database.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
