import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Static, TSchema } from 'typebox';
import { INVALID_ARGUMENT } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Directory } from '../../identity/types.ts';
import type { JsonObject } from '../../json.ts';
import { jsonRef, ref } from '../../schemas/common.ts';
import {
  AuthInfo,
  EntityName,
  InternalUserRequest,
  InternalUsers,
  RoleMappingRequest,
  RoleMappings,
  RoleRequest,
  Roles,
  SecurityAnswer,
} from '../../schemas/identity.ts';

export interface SecurityRoutesOptions {
  readonly directory: Directory;
}

type Named = { Params: { name: string } };

/** One kind of record of the security API. */
interface Noun {
  readonly path: string;
  /** Of its permissions: `user:read`, `user:update`, `user:delete`. */
  readonly noun: string;
  readonly request: TSchema & { $id?: string };
  readonly answer: TSchema & { $id?: string };
  readonly all: () => Promise<JsonObject>;
  readonly one: (name: string) => Promise<JsonObject>;
  readonly put: (principal: Principal, name: string, body: JsonObject) => Promise<'created' | 'updated'>;
  readonly remove: (principal: Principal, name: string) => Promise<void>;
}

const PREFIX = '/_plugins/_security';
const tags = ['security'];

/** Users, roles and mappings as the OpenSearch security plugin serves them, and who the caller is. */
export const securityRoutes: FastifyPluginAsyncTypebox<SecurityRoutesOptions> = async (app, { directory }) => {
  administer(app, {
    path: `${PREFIX}/api/internalusers`,
    noun: 'user',
    request: InternalUserRequest,
    answer: InternalUsers,
    all: directory.users,
    one: directory.user,
    put: directory.putUser,
    remove: directory.deleteUser,
  });
  administer(app, {
    path: `${PREFIX}/api/roles`,
    noun: 'role',
    request: RoleRequest,
    answer: Roles,
    all: directory.roles,
    one: directory.role,
    put: directory.putRole,
    remove: directory.deleteRole,
  });
  administer(app, {
    path: `${PREFIX}/api/rolesmapping`,
    noun: 'role_mapping',
    request: RoleMappingRequest,
    answer: RoleMappings,
    all: directory.mappings,
    one: directory.mapping,
    put: directory.putMapping,
    remove: directory.deleteMapping,
  });

  app.get(
    `${PREFIX}/authinfo`,
    {
      schema: { tags, response: { 200: ref(AuthInfo) } },
      config: { permission: 'account:read', queryParameters: ['verbose', 'auth_type'] },
    },
    ({ principal, socket }) => authInfo(principal, socket.remoteAddress),
  );
};

function administer(app: FastifyInstance, { path, noun, request, answer, all, one, put, remove }: Noun): void {
  const security = { securityEnvelope: true } as const;
  const changed = { 200: jsonRef(SecurityAnswer), 201: jsonRef(SecurityAnswer) };
  const params = EntityName;
  const emptyBody = () => new INVALID_ARGUMENT('Request body required for this action.');

  app.get(
    path,
    { schema: { tags, response: { 200: jsonRef(answer) } }, config: { permission: `${noun}:read`, ...security } },
    () => all(),
  );
  app.get<Named>(
    `${path}/:name`,
    {
      schema: { tags, params, response: { 200: jsonRef(answer) } },
      config: { permission: `${noun}:read`, ...security },
    },
    ({ params: { name } }) => one(name),
  );
  app.put<Named & { Body: JsonObject }>(
    `${path}/:name`,
    {
      schema: { tags, params, body: jsonRef(request), response: changed },
      config: { permission: `${noun}:update`, emptyBody, ...security },
    },
    async ({ principal, params: { name }, body }, reply) => {
      const created = (await put(principal, name, body)) === 'created';
      return answerWith(reply, created ? 201 : 200, `'${name}' ${created ? 'created' : 'updated'}.`);
    },
  );
  app.delete<Named>(
    `${path}/:name`,
    {
      schema: { tags, params, response: { 200: jsonRef(SecurityAnswer) } },
      config: { permission: `${noun}:delete`, ...security },
    },
    async ({ principal, params: { name } }, reply) => {
      await remove(principal, name);
      return answerWith(reply, 200, `'${name}' deleted.`);
    },
  );
}

function answerWith(reply: FastifyReply, status: 200 | 201, message: string): FastifyReply {
  return reply.code(status).send({ status: status === 201 ? 'CREATED' : 'OK', message });
}

function authInfo({ id, name, backendRoles, roles }: Principal, peer: string | undefined): Static<typeof AuthInfo> {
  return {
    user: `User [name=${name}, backend_roles=[${backendRoles.join(', ')}], requestedTenant=null]`,
    user_name: name,
    user_requested_tenant: null,
    remote_address: peer ?? null,
    backend_roles: [...backendRoles],
    custom_attribute_names: [],
    roles: [...roles],
    tenants: {},
    principal: id,
    peer_certificates: '0',
    sso_logout_url: null,
  };
}
