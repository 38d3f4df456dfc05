import type { Connector } from '../connectors/types.ts';
import type { CauseCode } from '../errors.ts';

/** Who can change what a server is reached by: a stored connector its owner, a declared one whoever writes the file. */
export type RemedyFor = 'stored' | 'declared' | 'local';

/** A limit of time that a connector sets. */
export type Limit = 'connection_timeout' | 'read_timeout' | 'max_total_timeout' | 'retry_timeout_seconds';

const REACHED = 'when you have started it, POST /_plugins/_ml/connectors/{id}/_reconnect tries at once';
const ITS_ENTRY = 'its entry in the configuration file, and restart';
const LOAD = 'Check the load of the server.';

const REMEDIES: Readonly<Record<CauseCode, string>> = {
  connection_refused: `Start the server; ${REACHED}. Or correct the url of the connector.`,
  dns_failed: 'Check the host name in the url of the connector.',
  tls_failed: 'Check the certificate of the server and the https port.',
  connect_timeout: 'Check that the server is reachable from here; client_config.connection_timeout sets the limit.',
  response_timeout: LOAD,
  stream_broken: 'Check the server and any proxy before it; the next use tries again.',
  wrong_path: 'Correct url and parameters.endpoint: the address is url + endpoint (default /mcp).',
  method_not_allowed: 'Check that the address is an MCP endpoint of the Streamable HTTP transport.',
  not_mcp: 'Check that the address is an MCP endpoint and that no sign-in page or proxy answers in its place.',
  auth_required: 'Correct the credential of the connector: PUT it with `credential`.',
  forbidden: 'Give the credential the permission it lacks, or use another one.',
  insufficient_scope: 'Sign in again with the scope the server asks for.',
  session_lost: 'Nothing to do: the next use opens a new session.',
  rate_limited: 'Wait for the time the server names, or ask its operator for a higher limit.',
  server_error: 'Look at the logs of the server.',
  version_unsupported: 'Update the server, or set client_config.protocol_version to a version it speaks.',
  invalid_response: 'Report the answer to the maker of the server.',
  tools_invalid: 'Report the tool definitions to the maker of the server.',
  address_refused: 'Allow the address in the settings, or use another one.',
  breaker_open: 'Wait for the next attempt, or POST /_plugins/_ml/connectors/{id}/_reconnect.',
  disabled: 'Enable the connector: POST /_plugins/_ml/connectors/{id}/_enable.',
  spawn_failed: 'Check the command of the server in the configuration file.',
  process_exited: 'Look at `stderr` in the status of the connector: it is what the server wrote before it ended.',
  id_taken: 'Give the server another name in the configuration file.',
  invalid_config: 'Correct the entry in the configuration file and restart.',
  outcome_unknown: 'Find out on the side of the server whether the call took effect before it is made again.',
};

/** What differs for a server of the configuration file, which nobody can change over the API. */
const DECLARED: Partial<Readonly<Record<CauseCode, string>>> = {
  connection_refused: `Start the server; ${REACHED}. Or correct the url of ${ITS_ENTRY}.`,
  dns_failed: `Check the host name in the url of ${ITS_ENTRY} after a correction.`,
  connect_timeout: 'Check that the server is reachable from here.',
  wrong_path: `The url of the entry is the whole address, nothing is appended to it: correct it in ${ITS_ENTRY}.`,
  method_not_allowed: `The url of the entry is the whole address of an MCP endpoint of the Streamable HTTP transport: correct it in ${ITS_ENTRY}.`,
  not_mcp: `Check that no sign-in page or proxy answers in its place, and the url: it is the whole address. Correct it in ${ITS_ENTRY}.`,
  auth_required: `Correct the headers, or the variable they name, of ${ITS_ENTRY}. When the other side was changed, GET /_plugins/_ml/connectors/{id}/_status?probe=true, or _disable and _enable, tries again.`,
  forbidden: `Give what the headers carry the permission it lacks, or use another one: correct ${ITS_ENTRY}.`,
  version_unsupported: `Update the server, or set client_config.protocol_version to a version it speaks: correct ${ITS_ENTRY}.`,
  address_refused: `Use another address: no setting allows this one. Correct ${ITS_ENTRY}.`,
};

const AT_STDERR = 'Look at `stderr` in the status of the connector: it is what the server wrote last';

/** What differs for a program of this machine, which has no address and no credential of ours. */
const LOCAL: Partial<Readonly<Record<CauseCode, string>>> = {
  stream_broken: `${AT_STDERR}; the next use starts it anew.`,
  server_error: `${AT_STDERR}.`,
  response_timeout: `${AT_STDERR}.`,
  invalid_response: `${AT_STDERR}, and check that its command starts an MCP server; else report it to its maker.`,
  version_unsupported: DECLARED.version_unsupported ?? '',
};

/** What a person can do about a failure of that kind. */
export function remedyFor(code: CauseCode, of: RemedyFor = 'stored'): string {
  const own = of === 'stored' ? undefined : (of === 'local' ? LOCAL : DECLARED)[code];
  return own ?? REMEDIES[code];
}

/** The same when a limit was reached that has a name: raising that one is the other way out. */
export function remedyForLimit(code: CauseCode, of: RemedyFor, limitName: string): string {
  const remedy = remedyFor(code, of);
  return remedy.includes(limitName) ? remedy : `${remedy} The limit that was reached is ${limitName}.`;
}

/** Which remedies hold for a connector. */
export function remediesOf({ protocol, declared }: Pick<Connector, 'protocol' | 'declared'>): RemedyFor {
  if (protocol === 'mcp_stdio') return 'local';
  return declared === undefined ? 'stored' : 'declared';
}

/** The name under which a limit is set: that of `timeout` where the entry of a declared server sets it so. */
export function limitNameOf({ declared }: Pick<Connector, 'declared'>, limit: Limit): string {
  const byTimeout = declared?.limitsOfTimeout?.some((name) => name === limit);
  return byTimeout ? '`timeout` of its entry in the configuration file' : `client_config.${limit}`;
}
