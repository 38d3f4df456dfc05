import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { jsonRef } from '../../schemas/common.ts';
import { ClusterHealth, ProbeAnswer, RootInfo } from '../../schemas/operations.ts';

export interface OperationsOptions {
  readonly clusterUuid: string;
  /** Version and date of this build of Tenon. */
  readonly build: { readonly version: string; readonly date: string };
  /** Rejects when the store does not take a write. */
  readonly checkStore: () => Promise<unknown>;
  /** The text of `openapi.yaml`. */
  readonly openApi: () => Promise<string>;
}

const CLUSTER_NAME = 'tenon';
/** The release of the compatible API that is spoken; clients and test suites select features by it. */
const API_VERSION = '3.5.0';
const HEALTH_PARAMETERS = [
  'cluster_manager_timeout',
  'level',
  'local',
  'master_timeout',
  'timeout',
  'wait_for_active_shards',
  'wait_for_events',
  'wait_for_no_initializing_shards',
  'wait_for_no_relocating_shards',
  'wait_for_nodes',
  'wait_for_status',
] as const;

/** Root info, health, probes and the API description. */
export const operationRoutes: FastifyPluginAsyncTypebox<OperationsOptions> = async (app, options) => {
  const { build, checkStore, openApi } = options;
  const info = {
    name: CLUSTER_NAME,
    cluster_name: CLUSTER_NAME,
    cluster_uuid: options.clusterUuid,
    version: {
      distribution: 'opensearch',
      number: API_VERSION,
      build_type: 'tar',
      build_hash: `tenon-${build.version}`,
      build_date: build.date,
      build_snapshot: false,
      lucene_version: '10.3.1',
      minimum_wire_compatibility_version: '2.19.0',
      minimum_index_compatibility_version: '2.0.0',
    },
    tagline: 'The OpenSearch Project: https://opensearch.org/',
  };
  const tags = ['operations'];

  app.get(
    '/',
    { schema: { tags, response: { 200: jsonRef(RootInfo) } }, config: { permission: 'root:read' } },
    () => info,
  );
  app.head('/', { schema: { tags }, config: { permission: 'root:read' } }, (_request, reply) =>
    reply.type('application/json').send(),
  );

  app.get(
    '/_cluster/health',
    {
      schema: { tags, response: { 200: jsonRef(ClusterHealth) } },
      config: { permission: 'cluster:read', queryParameters: HEALTH_PARAMETERS },
    },
    () => ({ cluster_name: CLUSTER_NAME, status: 'green', timed_out: false, number_of_nodes: 1 }),
  );

  app.get('/healthz', { schema: { tags, response: { 200: jsonRef(ProbeAnswer) } }, config: { public: true } }, () => ({
    status: 'ok',
  }));

  app.get(
    '/readyz',
    { schema: { tags, response: { 200: jsonRef(ProbeAnswer), 503: jsonRef(ProbeAnswer) } }, config: { public: true } },
    async (request, reply) => {
      try {
        await checkStore();
        return { status: 'ready' };
      } catch (error) {
        request.log.error({ err: error }, 'the database takes no write');
        return reply
          .code(503)
          .send({ status: 'unavailable', reason: 'The database takes no write; the log of the server says why' });
      }
    },
  );

  app.get('/openapi.yaml', { schema: { tags }, config: { permission: 'root:read' } }, async (_request, reply) =>
    reply.type('application/yaml; charset=UTF-8').send(await openApi()),
  );
};
