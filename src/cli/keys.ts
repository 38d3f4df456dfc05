import { type Command, InvalidArgumentError } from 'commander';
import type { JsonObject } from '../json.ts';
import { type CommandContext, type CommonOptions, collect, segment, show, verb } from './context.ts';
import { listed, table, text, time } from './output.ts';

interface CreateOptions extends CommonOptions {
  readonly scope?: readonly string[];
  readonly role?: readonly string[];
  readonly expires?: number;
}

const KEYS = '/_plugins/_ml/api_keys';
const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export function addKeyVerbs(program: Command, context: CommandContext): void {
  const { api, note } = context;
  const keys = program.command('keys').description('API keys');

  verb(keys, 'create <name>', 'create a key and print it, this once; the name says what it is for')
    .option('--scope <permission>', 'only this, such as agent:execute or agent:* (may be repeated)', collect)
    .option('--role <name>', 'only with this role of yours (may be repeated)', collect)
    .option('--expires <when>', 'after a time such as 90d, 12h or 30m, or at a time in ISO 8601', expiry)
    .action(async (name: string, { scope, role, expires, ...options }: CreateOptions) => {
      const body: JsonObject = {
        name,
        ...(scope === undefined ? {} : { scope: [...scope] }),
        ...(role === undefined ? {} : { roles: [...role] }),
        ...(expires === undefined ? {} : { expires_time: expires }),
      };
      const answer = await api.request('POST', KEYS, { body });
      show(context, options, answer, () => text(answer.api_key));
      const end = answer.expires_time === undefined ? 'does not expire' : `expires ${time(answer.expires_time)}`;
      note(`Key ${text(answer.id)} ${end}. It is not shown again.`);
    });

  verb(keys, 'list', 'list your keys; all keys for an administrator').action(async (options: CommonOptions) => {
    const answer = await api.request('GET', KEYS);
    show(context, options, answer, () =>
      table(['ID', 'NAME', 'OWNER', 'ROLES', 'SCOPE', 'EXPIRES', 'LAST USED', 'STATE'], rows(answer)),
    );
  });

  verb(keys, 'revoke <id>', 'end a key, for good').action(async (id: string, options: CommonOptions) => {
    const answer = await api.request('DELETE', `${KEYS}/${segment(id)}`);
    show(context, options, answer, () => `Key ${text(answer.id)} is revoked.`);
  });
}

function rows(answer: JsonObject): string[][] {
  const keys = Array.isArray(answer.api_keys) ? (answer.api_keys as JsonObject[]) : [];
  return keys.map((key) => [
    text(key.id),
    text(key.name),
    text(key.owner),
    key.roles === undefined ? 'all' : listed(key.roles),
    key.scope === undefined ? 'all' : listed(key.scope),
    key.expires_time === undefined ? 'never' : time(key.expires_time),
    key.last_used_time === undefined ? 'never' : time(key.last_used_time),
    stateOf(key),
  ]);
}

function stateOf({ revoked_time: revoked, expires_time: end }: JsonObject): string {
  if (revoked !== undefined) return 'revoked';
  return typeof end === 'number' && end <= Date.now() ? 'expired' : 'valid';
}

/** Epoch milliseconds. */
function expiry(given: string): number {
  const [, amount, unit = ''] = /^(\d{1,6})([mhd])$/.exec(given) ?? [];
  const at = amount === undefined ? Date.parse(given) : Date.now() + Number(amount) * (UNITS[unit] ?? 0);
  if (Number.isSafeInteger(at) && at > Date.now()) return at;
  throw new InvalidArgumentError('It has to be a time such as 90d, 12h or 30m, or a date in the future.');
}
