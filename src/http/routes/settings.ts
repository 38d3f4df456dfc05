import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { isJsonObject } from '../../json.ts';
import { jsonRef } from '../../schemas/common.ts';
import { ClusterSettings, SettingsUpdated, UpdateSettingsRequest } from '../../schemas/settings.ts';
import type { Settings } from '../../settings/types.ts';
import type { Audit } from '../../telemetry/audit.ts';
import { truthy } from '../query.ts';

export interface SettingsRoutesOptions {
  readonly settings: Settings;
  /** Learns which settings were changed and by whom, not their values. */
  readonly audit?: Audit;
}

const Query = Type.Object({
  include_defaults: Type.Optional(Type.String()),
  flat_settings: Type.Optional(Type.String()),
});
const TIMEOUTS = ['timeout', 'master_timeout', 'cluster_manager_timeout'];

/** Cluster settings, at the root of the server. */
export const settingsRoutes: FastifyPluginAsyncTypebox<SettingsRoutesOptions> = async (app, { settings, audit }) => {
  const tags = ['settings'];

  app.get(
    '/_cluster/settings',
    {
      schema: { tags, querystring: Query, response: { 200: jsonRef(ClusterSettings) } },
      config: {
        permission: 'settings:read',
        queryParameters: ['include_defaults', 'flat_settings', 'local', ...TIMEOUTS],
      },
    },
    ({ query }) =>
      settings.describe({ includeDefaults: truthy(query.include_defaults), flat: truthy(query.flat_settings) }),
  );

  app.put(
    '/_cluster/settings',
    {
      schema: {
        tags,
        querystring: Query,
        body: jsonRef(UpdateSettingsRequest),
        response: { 200: jsonRef(SettingsUpdated) },
      },
      config: { permission: 'settings:update', queryParameters: ['flat_settings', ...TIMEOUTS] },
    },
    async ({ principal, query, body }) => {
      const answer = await settings.update(body, { flat: truthy(query.flat_settings) });
      const detail = [body.persistent, body.transient].flatMap((part) => namesOf(part, '')).join(', ');
      await audit?.record({ principal: principal.id, action: 'settings.update', outcome: 'ok', detail });
      return answer;
    },
  );
};

/** Full names of the settings in a request, whatever its nesting. */
function namesOf(value: unknown, prefix: string): string[] {
  if (!isJsonObject(value)) return prefix === '' ? [] : [prefix];
  return Object.entries(value).flatMap(([name, inner]) => namesOf(inner, prefix === '' ? name : `${prefix}.${name}`));
}
