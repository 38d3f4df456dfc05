import type { Command } from 'commander';
import type { JsonObject } from '../json.ts';
import { type CommandContext, type CommonOptions, collect, named, segment, show, verb } from './context.ts';
import { CommandFailure, EXIT } from './failure.ts';
import { text } from './output.ts';

interface SetOptions extends CommonOptions {
  readonly permission?: readonly string[];
  readonly denyTool?: readonly string[];
  readonly description?: string;
}

interface HolderOptions extends CommonOptions {
  readonly user?: readonly string[];
  readonly backendRole?: readonly string[];
}

interface Holders {
  readonly users: readonly string[];
  readonly backendRoles: readonly string[];
}

const ROLES = '/_plugins/_security/api/roles';
const MAPPINGS = '/_plugins/_security/api/rolesmapping';

/** The verbs below `roles` that change something. */
export function addRoleChanges(roles: Command, context: CommandContext): void {
  const { api } = context;

  verb(roles, 'set <name>', 'create a role, or replace it as a whole')
    .option('--permission <pattern>', 'allow this, such as agent:execute or connector:* (may be repeated)', collect)
    .option(
      '--deny-tool <regex[@connector_id]>',
      'deny tools whose whole name matches; an @ of the expression needs one more at the end (may be repeated)',
      collect,
    )
    .option('--description <text>', 'what the role is for')
    .action(async (name: string, { permission = [], denyTool = [], description, ...options }: SetOptions) => {
      if (permission.length + denyTool.length === 0) {
        throw new CommandFailure('Give --permission or --deny-tool: the role would do nothing', EXIT.usage);
      }
      const body: JsonObject = {
        cluster_permissions: [...permission],
        denied_tools: denyTool.map(deniedTool),
        ...(description === undefined ? {} : { description }),
      };
      const answer = await api.request('PUT', `${ROLES}/${segment(name)}`, { body });
      show(context, options, answer, () => text(answer.message));
    });

  verb(roles, 'remove <name>', 'delete a role; who has it loses what it allows').action(
    async (name: string, options: CommonOptions) => {
      const answer = await api.request('DELETE', `${ROLES}/${segment(name)}`);
      show(context, options, answer, () => text(answer.message));
    },
  );

  withHolders(verb(roles, 'assign <role>', 'map users and groups to a role, besides those that are')).action(
    async (role: string, options: HolderOptions) => {
      const given = holders(options);
      const mapping = await mappingOf(role);
      const { users, backendRoles } = membersOf(mapping);
      const body = bodyOf(mapping, {
        users: [...new Set([...users, ...given.users])],
        backendRoles: [...new Set([...backendRoles, ...given.backendRoles])],
      });
      const answer = await api.request('PUT', `${MAPPINGS}/${segment(role)}`, { body });
      show(context, options, answer, () => text(answer.message));
    },
  );

  withHolders(verb(roles, 'unassign <role>', 'take users and groups out of the mapping of a role')).action(
    async (role: string, options: HolderOptions) => {
      const given = holders(options);
      const mapping = await mappingOf(role);
      const { users, backendRoles } = membersOf(mapping);
      const strangers = [...without(given.users, users), ...without(given.backendRoles, backendRoles)];
      if (strangers.length > 0) {
        const remedy = 'A role that a user has without a mapping is changed with `tenon users roles`.';
        throw new CommandFailure(
          `The mapping of '${role}' does not name ${strangers.join(', ')}. ${remedy}`,
          EXIT.failed,
        );
      }
      const rest = { users: without(users, given.users), backendRoles: without(backendRoles, given.backendRoles) };
      const path = `${MAPPINGS}/${segment(role)}`;
      const answer =
        rest.users.length + rest.backendRoles.length === 0
          ? await api.request('DELETE', path)
          : await api.request('PUT', path, { body: bodyOf(mapping, rest) });
      show(context, options, answer, () => text(answer.message));
    },
  );

  async function mappingOf(role: string): Promise<JsonObject> {
    try {
      return named(await api.request('GET', `${MAPPINGS}/${segment(role)}`))[0]?.[1] ?? {};
    } catch (error) {
      if (error instanceof CommandFailure && error.status === 404) return {};
      throw error;
    }
  }
}

function withHolders(command: Command): Command {
  return command
    .option('--user <name>', 'this user; * stands for any characters (may be repeated)', collect)
    .option('--backend-role <name>', 'whoever is in this group (may be repeated)', collect);
}

function holders({ user = [], backendRole = [] }: HolderOptions): Holders {
  if (user.length + backendRole.length > 0) return { users: user, backendRoles: backendRole };
  throw new CommandFailure('Give --user or --backend-role', EXIT.usage);
}

function membersOf({ users = [], backend_roles: backendRoles = [] }: JsonObject): Holders {
  return { users: users as string[], backendRoles: backendRoles as string[] };
}

function bodyOf({ description }: JsonObject, { users, backendRoles }: Holders): JsonObject {
  const kept = description === undefined ? {} : { description };
  return { users: [...users], backend_roles: [...backendRoles], ...kept };
}

function without(names: readonly string[], others: readonly string[]): string[] {
  return names.filter((name) => !others.includes(name));
}

/** What is after the last `@` is the connector; nothing there is every connector. */
function deniedTool(given: string): JsonObject {
  const at = given.lastIndexOf('@');
  if (at < 0) return { tool: given };
  const connector = given.slice(at + 1);
  return { tool: given.slice(0, at), ...(connector === '' ? {} : { connector_id: connector }) };
}
