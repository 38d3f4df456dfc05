import type { FastifyInstance } from 'fastify';

/**
 * Collects the description of every route registered after it, for `app.swagger({ yaml: true })`: OpenAPI 3.1, named
 * schemas as components under their own names. Loaded only to write `openapi.yaml`; a server that serves never pays.
 */
export async function describeRoutes(app: FastifyInstance, version: string): Promise<void> {
  const { default: swagger } = await import('@fastify/swagger');
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tenon',
        description: 'Self-hosted agent platform: MCP connectors, models and agents behind the ML Commons REST API.',
        version,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: 'http://127.0.0.1:9200' }],
      components: {
        securitySchemes: { user: { type: 'http', scheme: 'basic' }, apiKey: { type: 'http', scheme: 'bearer' } },
      },
      security: [{ user: [] }, { apiKey: [] }, {}],
    },
    refResolver: {
      buildLocalReference: (json, _baseUri, _fragment, index) =>
        typeof json['$id'] === 'string' ? json['$id'] : `schema-${index}`,
    },
  });
}
