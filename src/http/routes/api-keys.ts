import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ApiKeys } from '../../identity/types.ts';
import { jsonRef } from '../../schemas/common.ts';
import { ApiKeyCreated, ApiKeyId, ApiKeyList, ApiKeyRequest, ApiKeyRevoked } from '../../schemas/identity.ts';

export interface ApiKeyRoutesOptions {
  readonly apiKeys: ApiKeys;
}

/** API keys, below the prefix of the API. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox<ApiKeyRoutesOptions> = async (app, { apiKeys }) => {
  const tags = ['security'];

  app.post(
    '/api_keys',
    {
      schema: { tags, body: jsonRef(ApiKeyRequest), response: { 200: jsonRef(ApiKeyCreated) } },
      config: { permission: 'api_key:create' },
    },
    ({ principal, body }) => apiKeys.create(principal, body),
  );

  app.get(
    '/api_keys',
    { schema: { tags, response: { 200: jsonRef(ApiKeyList) } }, config: { permission: 'api_key:read' } },
    ({ principal }) => apiKeys.list(principal),
  );

  app.delete(
    '/api_keys/:api_key_id',
    {
      schema: { tags, params: ApiKeyId, response: { 200: jsonRef(ApiKeyRevoked) } },
      config: { permission: 'api_key:revoke' },
    },
    ({ principal, params }) => apiKeys.revoke(principal, params.api_key_id),
  );
};
