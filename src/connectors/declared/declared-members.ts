import { INVALID_ARGUMENT } from '../../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import { clientConfigInForce, readClientConfig } from '../client-config.ts';
import { readAuth } from '../mcp-members.ts';
import { isGiven } from '../members.ts';
import type { ClientConfig, ConnectorProtocol, DeclaredServer } from '../types.ts';
import { holdsVariable, type Resolver, shownValue } from './declared-variables.ts';
import { likeliest } from './likeliest-name.ts';

const LOCAL_TYPES = ['local', 'stdio'];
const REMOTE_TYPES = ['remote', 'http', 'streamablehttp'];
const SHARED = ['type', 'enabled', 'disabled', 'timeout', 'agents', 'client_config'];
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  mcp_stdio: [...SHARED, 'command', 'args', 'environment', 'env', 'cwd'],
  mcp_streamable_http: [...SHARED, 'url', 'headers', 'auth'],
};
const AUTH_SECRETS = ['client_secret', 'private_key'];
const LONGEST_MS = 2_147_483_000;
/** Of a member, in characters, as messages show it. */
const LONGEST_NAME = 100;

type McpProtocol = Exclude<ConnectorProtocol, 'http'>;

/** What the entry declares, told by `command` or `url`; `type` may say it too. @throws INVALID_ARGUMENT */
export function protocolOf(entry: JsonObject): McpProtocol {
  const { type, command, url } = entry;
  const [isLocal, isRemote] = [isGiven(command), isGiven(url)];
  if (isGiven(type)) checkType(type, isLocal, isRemote);
  if (isLocal && isRemote) {
    throw new INVALID_ARGUMENT('it has both command and url. Give command for a local server, url for a remote one.');
  }
  if (!isLocal && !isRemote) {
    throw new INVALID_ARGUMENT('it has no command and no url. Give command for a local server, url for a remote one.');
  }
  return isLocal ? 'mcp_stdio' : 'mcp_streamable_http';
}

function checkType(type: JsonValue, isLocal: boolean, isRemote: boolean): void {
  const kind = typeof type === 'string' ? type.toLowerCase().replaceAll(/[-_]/g, '') : '';
  if (kind === 'sse') {
    throw new INVALID_ARGUMENT(
      'type sse is not served: it was replaced by Streamable HTTP. Give type remote, and the url of that endpoint of the server, often /mcp in place of /sse.',
    );
  }
  if (LOCAL_TYPES.includes(kind)) {
    if (isRemote && !isLocal) throw new INVALID_ARGUMENT('type is local, but it has a url and no command.');
  } else if (REMOTE_TYPES.includes(kind)) {
    if (isLocal && !isRemote) throw new INVALID_ARGUMENT('type is remote, but it has a command and no url.');
  } else {
    throw new INVALID_ARGUMENT(
      'type must be local (or stdio) or remote (or http, streamable-http); it may be left out.',
    );
  }
}

/** Names of members that nothing reads, each with the one that may be meant; without a protocol, that neither has. */
export function unknownMembers(entry: JsonObject, protocol?: McpProtocol): string[] {
  const known = protocol === undefined ? Object.values(MEMBERS).flat() : (MEMBERS[protocol] ?? []);
  return Object.keys(entry)
    .filter((name) => isGiven(entry[name]) && !known.includes(name))
    .map((name) => {
      const meant = likeliest(name, known);
      const shown = name.slice(0, LONGEST_NAME);
      return meant === undefined ? shown : `${shown} (did you mean ${meant}?)`;
    });
}

/** `enabled`, and `disabled` as other hosts write it. @throws INVALID_ARGUMENT */
export function readEnabled(entry: JsonObject): boolean {
  const enabled = flag('enabled', entry.enabled) ?? true;
  return enabled && !(flag('disabled', entry.disabled) ?? false);
}

/** Names or ids of agents; `*` is all of them. @throws INVALID_ARGUMENT */
export function readAgents({ agents }: JsonObject): string[] {
  if (!isGiven(agents)) return [];
  if (Array.isArray(agents) && agents.every((agent) => typeof agent === 'string' && agent !== '')) {
    return agents as string[];
  }
  throw new INVALID_ARGUMENT('agents must be an array of names or ids of agents, or ["*"] for all of them.');
}

/**
 * The program and its arguments: an array, or a text with `args` as other hosts write it. Every element reaches the
 * program as it is. @throws INVALID_ARGUMENT
 */
export function readCommand({ command, args }: JsonObject): [string, ...string[]] {
  const isList = Array.isArray(command);
  if (isList && isGiven(args))
    throw new INVALID_ARGUMENT('args goes with a command that is a text; this one is an array.');
  if (typeof command === 'string' && !isGiven(args) && /\S\s+\S/.test(command)) {
    const program = JSON.stringify(command.trim().split(/\s+/, 1)[0]?.slice(0, LONGEST_NAME));
    throw new INVALID_ARGUMENT(
      `command is one text with blanks, and no shell splits it. Write it as an array of the program and its arguments: [${program}, "…"], as in ["npx", "-y", "foo"]; in mcpServers as command ${program} with args ["…"]. A program whose path holds blanks is an array of one.`,
    );
  }
  const [program, ...rest] = isList ? command : [command, ...listOf('args', args)];
  if (typeof program !== 'string' || program.trim() === '') {
    throw new INVALID_ARGUMENT('command must be an array that begins with a program, such as ["npx", "some-server"].');
  }
  const words = rest.map((word) => {
    if (typeof word !== 'string') throw new INVALID_ARGUMENT(`${isList ? 'command' : 'args'} must hold texts only.`);
    return word;
  });
  for (const word of [program, ...words]) {
    if (word.includes('\0')) throw new INVALID_ARGUMENT('command must not hold a NUL character.');
    if (holdsVariable(word)) {
      throw new INVALID_ARGUMENT(
        'command uses {env:…}, which is read in headers and environment only: arguments are seen by every user of the machine. Give it to the server in environment.',
      );
    }
  }
  return [program, ...words];
}

/** A map of texts; numbers and flags are taken as their text. @throws INVALID_ARGUMENT */
export function readTexts(member: string, value: JsonValue | undefined): [name: string, text: string][] {
  if (!isGiven(value)) return [];
  if (!isJsonObject(value)) throw new INVALID_ARGUMENT(`${member} must be an object of texts.`);
  return Object.entries(value).map(([name, text]) => {
    if (text === null || typeof text === 'object') {
      throw new INVALID_ARGUMENT(`${member}: the value of ${JSON.stringify(name.slice(0, 100))} must be a text.`);
    }
    return [name, String(text)];
  });
}

/** The environment as it is written, `env` in other hosts. @throws INVALID_ARGUMENT */
export function readEnvironment({ environment, env }: JsonObject): [name: string, text: string][] {
  if (isGiven(environment) && isGiven(env)) {
    throw new INVALID_ARGUMENT('environment and env are the same thing. Give one of them.');
  }
  const entries = readTexts(isGiven(env) ? 'env' : 'environment', isGiven(env) ? env : environment);
  for (const [name, text] of entries) {
    if (name === '' || /[=\0]/.test(name) || text.includes('\0')) {
      throw new INVALID_ARGUMENT('environment must hold names without = and NUL, and values without NUL.');
    }
  }
  return entries;
}

/**
 * The limits in force. `timeout`, in milliseconds as other hosts have it, is for connecting and for one call; what
 * `client_config` names goes before it. @throws INVALID_ARGUMENT
 */
export function readLimits(
  entry: JsonObject,
  protocol: McpProtocol,
): { clientConfig: ClientConfig; limitsOfTimeout: DeclaredServer['limitsOfTimeout'] } {
  const given = isGiven(entry.client_config) ? readClientConfig(entry.client_config, protocol) : {};
  return {
    clientConfig: clientConfigInForce({ ...ofTimeout(entry.timeout, protocol), ...given }, protocol),
    limitsOfTimeout: (['connection_timeout', 'read_timeout'] as const).filter((name) => given[name] === undefined),
  };
}

function ofTimeout(timeout: JsonValue | undefined, protocol: McpProtocol): JsonObject {
  if (!isGiven(timeout)) return {};
  if (typeof timeout !== 'number' || !Number.isInteger(timeout) || timeout < 1 || timeout > LONGEST_MS) {
    throw new INVALID_ARGUMENT(`timeout must be a whole number of milliseconds, from 1 to ${LONGEST_MS}.`);
  }
  // Eighths of a second are whole milliseconds again, without rounding.
  const seconds = Math.ceil(timeout / 125) / 8;
  const { retry_timeout_seconds, max_total_timeout } = clientConfigInForce(undefined, protocol);
  return {
    connection_timeout: seconds,
    read_timeout: seconds,
    retry_timeout_seconds: Math.max(retry_timeout_seconds, seconds),
    max_total_timeout: Math.max(max_total_timeout, seconds),
  };
}

/**
 * The address as it is used; nothing is appended. Which addresses are allowed is judged elsewhere.
 * @throws INVALID_ARGUMENT without a word of the address
 */
export function readUrl({ url }: JsonObject): URL {
  if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:\/\//i.test(url)) {
    throw new INVALID_ARGUMENT('url must be the whole http:// or https:// address of the MCP endpoint.');
  }
  const parsed = new URL(url);
  if (holdsVariable(url)) {
    throw new INVALID_ARGUMENT('url uses {env:…}, which is read in headers and environment only.');
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new INVALID_ARGUMENT('url must not hold a user or a password. Give them in headers.');
  }
  if (parsed.hash !== '') throw new INVALID_ARGUMENT('url must not have a fragment (#…).');
  return parsed;
}

/** `auth` as it may be shown; its variables are looked up. @throws INVALID_ARGUMENT, WRONG_SHAPE */
export function readDeclaredAuth({ auth }: JsonObject, resolver: Resolver): JsonObject | undefined {
  if (!isJsonObject(auth)) return readAuth(auth);
  const shown = { ...auth };
  const asTemplates = { ...auth };
  for (const name of AUTH_SECRETS) {
    const secret = auth[name];
    if (typeof secret !== 'string') continue;
    resolver.resolve(`auth.${name}`, secret);
    shown[name] = shownValue(secret);
    asTemplates[name] = `\${credential.${name}}`;
  }
  readAuth(asTemplates);
  return shown;
}

function flag(name: string, value: JsonValue | undefined): boolean | undefined {
  if (!isGiven(value)) return undefined;
  if (typeof value === 'boolean') return value;
  throw new INVALID_ARGUMENT(`${name} must be true or false.`);
}

function listOf(name: string, value: JsonValue | undefined): JsonValue[] {
  if (!isGiven(value)) return [];
  if (Array.isArray(value)) return value;
  throw new INVALID_ARGUMENT(`${name} must be an array of texts.`);
}
