import type { Command } from 'commander';
import type { JsonObject } from '../json.ts';
import { type CommandContext, type CommonOptions, collect, named, segment, show, verb } from './context.ts';
import { CommandFailure, EXIT } from './failure.ts';
import { listed, table, text } from './output.ts';
import { newPassword } from './password.ts';

interface RolesOptions extends CommonOptions {
  readonly role?: readonly string[];
  readonly none?: boolean;
}

interface AddOptions extends CommonOptions {
  readonly role?: readonly string[];
  readonly backendRole?: readonly string[];
  readonly description?: string;
}

const USERS = '/_plugins/_security/api/internalusers';
const ADMIN_ROLE = 'all_access';

export function addUserVerbs(program: Command, context: CommandContext): void {
  const { api, terminal, note } = context;
  const users = program.command('users').description('Users that sign in with name and password');

  verb(users, 'list', 'list users').action(async (options: CommonOptions) => {
    const answer = await api.request('GET', USERS);
    show(context, options, answer, () =>
      table(['NAME', 'ROLES', 'BACKEND ROLES', 'STATE', 'DESCRIPTION'], rows(answer)),
    );
  });

  verb(users, 'add <name>', 'create a user; the password is typed, or the first line of standard input')
    .option('--role <name>', 'give this role (may be repeated)', collect)
    .option('--backend-role <name>', 'put into this group (may be repeated)', collect)
    .option('--description <text>', 'what the user is for')
    .action(async (name: string, options: AddOptions) => {
      const open = (await api.request('GET', '/_plugins/_security/authinfo')).principal === 'open';
      if ((await existing(name)) !== undefined) {
        throw new CommandFailure(
          `There is a user '${name}' already; \`tenon users passwd\` sets its password`,
          EXIT.failed,
        );
      }
      const roles = options.role ?? (open ? [ADMIN_ROLE] : []);
      const body: JsonObject = {
        password: await newPassword(terminal, name),
        opendistro_security_roles: [...roles],
        backend_roles: [...(options.backendRole ?? [])],
        ...(options.description === undefined ? {} : { description: options.description }),
      };
      const answer = await api.request('PUT', `${USERS}/${segment(name)}`, { body });
      show(context, options, answer, () => text(answer.message));
      if (roles.length === 0) note(`'${name}' has no role of its own: it may do what mappings give it, else nothing.`);
      if (!open) return;
      if (options.role === undefined)
        note(`The first user is the administrator: '${name}' has the role ${ADMIN_ROLE}.`);
      note('The server has left open mode: from now on every caller has to sign in (TENON_USER and TENON_PASSWORD),');
      note('and connectors reach addresses of this machine only where TENON_TRUSTED_PRIVATE_ENDPOINTS names them.');
    });

  verb(users, 'remove <name>', 'delete a user and all API keys of that user').action(
    async (name: string, options: CommonOptions) => {
      const answer = await api.request('DELETE', `${USERS}/${segment(name)}`);
      show(context, options, answer, () => text(answer.message));
    },
  );

  verb(users, 'passwd <name>', 'set a password; it is typed, or the first line of standard input').action(
    async (name: string, options: CommonOptions) => {
      const user = await existing(name);
      if (user === undefined) throw new CommandFailure(`There is no user '${name}'`, EXIT.failed);
      const body: JsonObject = { ...kept(user), password: await newPassword(terminal, name) };
      const answer = await api.request('PUT', `${USERS}/${segment(name)}`, { body });
      show(context, options, answer, () => text(answer.message));
    },
  );

  verb(users, 'roles <name>', 'show the roles a user has without a mapping, or put others in their place')
    .option('--role <name>', 'have this role (may be repeated)', collect)
    .option('--none', 'have none')
    .action(async (name: string, { role, none = false, ...options }: RolesOptions) => {
      if (none && role !== undefined) throw new CommandFailure('--none and --role exclude each other', EXIT.usage);
      const user = await existing(name);
      if (user === undefined) throw new CommandFailure(`There is no user '${name}'`, EXIT.failed);
      const { opendistro_security_roles: current = [] } = user;
      if (role === undefined && !none) return show(context, options, current, () => listed(current) || 'none');
      const body: JsonObject = { ...kept(user), opendistro_security_roles: [...(role ?? [])] };
      const answer = await api.request('PUT', `${USERS}/${segment(name)}`, { body });
      show(context, options, answer, () => text(answer.message));
    });

  async function existing(name: string): Promise<JsonObject | undefined> {
    try {
      const answer = await api.request('GET', `${USERS}/${segment(name)}`);
      return named(answer)[0]?.[1];
    } catch (error) {
      if (error instanceof CommandFailure && error.status === 404) return undefined;
      throw error;
    }
  }
}

/** What a PUT has to repeat, because it replaces all but the password. */
function kept({
  backend_roles = [],
  opendistro_security_roles = [],
  attributes = {},
  description,
}: JsonObject): JsonObject {
  const described = description === undefined ? {} : { description };
  return { backend_roles, opendistro_security_roles, attributes, ...described };
}

function rows(answer: JsonObject): string[][] {
  return named(answer).map(([name, user]) => [
    name,
    listed(user.opendistro_security_roles),
    listed(user.backend_roles),
    (user.attributes as JsonObject | undefined)?.enabled === 'false' ? 'locked' : 'active',
    text(user.description),
  ]);
}
