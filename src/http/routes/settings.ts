import type { FastifyPluginAsync } from 'fastify';
import type { JsonObject } from '../../json.ts';
import { ref } from '../../schemas/common.ts';
import { ClusterSettings, SettingsUpdated, UpdateSettingsRequest } from '../../schemas/settings.ts';
import type { Settings } from '../../settings/types.ts';
import { truthy } from '../query.ts';

export interface SettingsRoutesOptions {
  readonly settings: Settings;
}

type Query = { Querystring: { include_defaults?: string; flat_settings?: string } };

const TIMEOUTS = ['timeout', 'master_timeout', 'cluster_manager_timeout'];

/** Cluster settings, at the root of the server. */
export const settingsRoutes: FastifyPluginAsync<SettingsRoutesOptions> = async (app, { settings }) => {
  const tags = ['settings'];

  app.get<Query>(
    '/_cluster/settings',
    {
      schema: { tags, response: { 200: ref(ClusterSettings) } },
      config: {
        permission: 'settings:read',
        queryParameters: ['include_defaults', 'flat_settings', 'local', ...TIMEOUTS],
      },
    },
    ({ query }) =>
      settings.describe({ includeDefaults: truthy(query.include_defaults), flat: truthy(query.flat_settings) }),
  );

  app.put<Query & { Body: JsonObject }>(
    '/_cluster/settings',
    {
      schema: { tags, body: ref(UpdateSettingsRequest), response: { 200: ref(SettingsUpdated) } },
      config: { permission: 'settings:update', queryParameters: ['flat_settings', ...TIMEOUTS] },
    },
    ({ query, body }) => settings.update(body, { flat: truthy(query.flat_settings) }),
  );
};
