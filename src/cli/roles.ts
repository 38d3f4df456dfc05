import type { Command } from 'commander';
import { isJsonObject, type JsonObject } from '../json.ts';
import { type CommandContext, type CommonOptions, named, segment, show, verb } from './context.ts';
import { plainText, table, text } from './output.ts';
import { addRoleChanges } from './role-changes.ts';

const ROLES = '/_plugins/_security/api/roles';

export function addRoleVerbs(program: Command, context: CommandContext): void {
  const { api } = context;
  const roles = program.command('roles').description('Roles: what their holders may do');

  verb(roles, 'list', 'list roles').action(async (options: CommonOptions) => {
    const answer = await api.request('GET', ROLES);
    show(context, options, answer, () =>
      table(
        ['NAME', 'KIND', 'DESCRIPTION'],
        named(answer).map(([name, role]) => [name, kindOf(role), text(role.description)]),
      ),
    );
  });

  verb(roles, 'show <name>', 'show what a role allows and denies').action(
    async (name: string, options: CommonOptions) => {
      const answer = await api.request('GET', `${ROLES}/${segment(name)}`);
      show(context, options, answer, () =>
        named(answer)
          .map(([shown, role]) => described(shown, role))
          .join('\n'),
      );
    },
  );
  addRoleChanges(roles, context);
}

function kindOf(role: JsonObject): string {
  return role.reserved === true ? 'built in' : 'own';
}

function described(name: string, role: JsonObject): string {
  const allowed = Array.isArray(role.cluster_permissions) ? role.cluster_permissions : [];
  const denied = Array.isArray(role.denied_tools) ? role.denied_tools.filter(isJsonObject) : [];
  const lines = [
    `${name} (${kindOf(role)})`,
    ...(role.description === undefined ? [] : [text(role.description)]),
    'allows:',
    ...allowed.map((permission) => `  ${text(permission)}`),
    ...(denied.length === 0 ? [] : ['denies the tools:']),
    ...denied.map(
      ({ tool, connector_id: id }) => `  ${text(tool)} of ${id === undefined ? 'every connector' : text(id)}`,
    ),
  ];
  return lines.map(plainText).join('\n');
}
