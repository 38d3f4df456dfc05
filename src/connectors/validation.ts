import { INVALID_ARGUMENT } from '../errors.ts';
import { givesAccess } from '../identity/ownership-rules.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { readClientConfig } from './client-config.ts';
import { readAuth, readPassthroughHeaders } from './mcp-members.ts';
import { isGiven, parameterMap, readActions, textMap, textMember } from './members.ts';
import type { ConnectorProtocol } from './types.ts';

/** A connector as it will be stored, and the credential of the request apart from it. */
export interface Draft {
  readonly document: JsonObject;
  /** `undefined`: none given (absent, `null` or `{}`). */
  readonly credential: Readonly<Record<string, string>> | undefined;
}

const PROTOCOLS = 'aws_sigv4, http, mcp_sse, mcp_streamable_http';

/**
 * Reads the body of a create in the documented order: name, version, protocol, credential, functions of the actions,
 * url of an MCP server, value of the protocol, actions present. Unknown members are ignored.
 * @throws INVALID_ARGUMENT, WRONG_SHAPE
 */
export function readCreate(body: JsonObject): Draft {
  refuseCommand(body);
  const name = required('name', body);
  const version = required('version', body);
  const protocol = required('protocol', body);
  const isMcp = protocol.startsWith('mcp_');
  const credential = readCredential(body);
  if (!isMcp && credential === undefined) throw new INVALID_ARGUMENT('Connector credential is null or empty list');
  const actions = isMcp ? undefined : readActions(body.actions);
  const url = isMcp ? textMember('url', body.url) : undefined;
  if (isMcp && (url === undefined || url.trim() === '')) {
    throw new INVALID_ARGUMENT('MCP Connector url is null or blank');
  }
  const served = servedProtocol(protocol);
  if (served === 'http' && (actions ?? []).length === 0) {
    throw new INVALID_ARGUMENT('No actions configured for this connector');
  }
  const document = withDefined({ name, version, protocol: served, url, actions, ...optionalMembers(body, served) });
  return { document, credential };
}

/**
 * Lays the body of an update over the stored document: parameters are merged, everything else is replaced.
 * @throws INVALID_ARGUMENT, WRONG_SHAPE
 */
export function readUpdate(current: JsonObject, body: JsonObject): Draft {
  refuseCommand(body);
  const protocol = current.protocol as ConnectorProtocol;
  if (isGiven(body.protocol) && textMember('protocol', body.protocol) !== protocol) {
    throw new INVALID_ARGUMENT(
      `The protocol of a connector cannot be changed from ${protocol}. Create a new connector.`,
    );
  }
  const isMcp = protocol === 'mcp_streamable_http';
  const url = isMcp ? textMember('url', body.url) : undefined;
  if (url !== undefined && url.trim() === '') throw new INVALID_ARGUMENT('MCP Connector url is blank');
  const actions = isMcp ? undefined : readActions(body.actions);
  if (actions?.length === 0) throw new INVALID_ARGUMENT('No actions configured for this connector');
  const name = isGiven(body.name) ? required('name', body) : undefined;
  const version = isGiven(body.version) ? required('version', body) : undefined;
  const { parameters, ...members } = optionalMembers(body, protocol);
  const stored = isJsonObject(current.parameters) ? current.parameters : {};
  const merged = parameters === undefined ? undefined : { ...stored, ...(parameters as JsonObject) };
  const changes = withDefined({ name, version, url, actions, parameters: merged, ...members });
  return { document: { ...current, ...changes }, credential: readCredential(body) };
}

/** The connector inside a model has no access of its own. @throws INVALID_ARGUMENT when the body asks for some */
export function refuseInlineAccess(body: JsonObject, enabled: boolean): void {
  if (!givesAccess(body)) return;
  throw new INVALID_ARGUMENT(
    enabled
      ? 'You cannot specify access control parameters in the connector of a model: it is shared as the model group is. Give them to the model group.'
      : 'You cannot specify connector access control parameters because the Security plugin or connector access control is disabled on your cluster.',
  );
}

function optionalMembers(body: JsonObject, protocol: ConnectorProtocol): Record<string, JsonValue | undefined> {
  const isMcp = protocol === 'mcp_streamable_http';
  const config = body.client_config;
  return {
    description: textMember('description', body.description),
    parameters: parameterMap(body.parameters),
    client_config: isGiven(config) ? readClientConfig(config, protocol) : undefined,
    ...(isMcp
      ? {
          headers: textMap('headers', body.headers),
          passthrough_headers: readPassthroughHeaders(body.passthrough_headers),
          auth: readAuth(body.auth),
        }
      : {}),
  };
}

function readCredential(body: JsonObject): Record<string, string> | undefined {
  const credential = textMap('credential', body.credential);
  return credential === undefined || Object.keys(credential).length === 0 ? undefined : credential;
}

function required(member: string, body: JsonObject): string {
  const value = textMember(member, body[member]);
  if (value === undefined || value.trim() === '') throw new INVALID_ARGUMENT(`Connector ${member} is null`);
  return value;
}

function servedProtocol(protocol: string): ConnectorProtocol {
  switch (protocol) {
    case 'http':
    case 'mcp_streamable_http':
      return protocol;
    case 'mcp_sse':
      throw new INVALID_ARGUMENT(
        'Connector protocol mcp_sse is not served: servers of that transport are reached by its successor. Please use mcp_streamable_http.',
      );
    case 'aws_sigv4':
      throw new INVALID_ARGUMENT(
        'Connector protocol aws_sigv4 is not served yet. Please use http with a header that holds an API key.',
      );
    default:
      throw new INVALID_ARGUMENT(`Unsupported connector protocol. Please use one of [${PROTOCOLS}]`);
  }
}

function refuseCommand(body: JsonObject): void {
  const what = isGiven(body.command) ? 'a command' : body.protocol === 'mcp_stdio' ? 'protocol mcp_stdio' : undefined;
  if (what === undefined) return;
  throw new INVALID_ARGUMENT(
    `A connector cannot have ${what}: servers that run as local processes come only from the operator's configuration file. Give the url of a server instead.`,
  );
}

function withDefined(members: Record<string, JsonValue | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined),
  );
}
