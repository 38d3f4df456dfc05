import { INVALID_ARGUMENT } from '../errors.ts';
import { ownershipOf } from '../identity/ownership.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { EndpointPolicy } from '../outbound/types.ts';
import { clientConfigInForce, shownClientConfig } from './client-config.ts';
import { checkAddress } from './endpoint-policy.ts';
import { checkHeaders } from './headers.ts';
import { mcpAddress } from './mcp-address.ts';
import { checkAuthCredentials } from './mcp-members.ts';
import { checkPassthrough } from './passthrough.ts';
import { compileBody, compileText, placeholderNames, type Template } from './template.ts';
import type { Connector, ConnectorAction, ConnectorProtocol } from './types.ts';
import { renderOwnUrl } from './url-template.ts';

/** A stored connector document as the rooms above see it. */
export function connectorOf(id: string, document: JsonObject, revision: number): Connector {
  const { url, headers, actions, passthrough_headers: passed } = document;
  const protocol = document.protocol as ConnectorProtocol;
  return {
    id,
    name: String(document.name ?? id),
    protocol,
    parameters: (document.parameters ?? {}) as Record<string, string>,
    ...(typeof url === 'string' ? { url } : {}),
    ...(isJsonObject(headers) ? { headers: headers as Record<string, string> } : {}),
    ...(Array.isArray(passed) && passed.length > 0 ? { passthroughHeaders: passed as string[] } : {}),
    ...(Array.isArray(actions) ? { actions: actions as unknown as ConnectorAction[] } : {}),
    clientConfig: clientConfigInForce(document.client_config, protocol),
    revision,
    ...(document.owner_id === undefined ? {} : { ownership: ownershipOf(document) }),
  };
}

/** The document as GET shows it: `client_config`, where one was given, with its defaults. */
export function shownDocument(document: JsonObject): JsonObject {
  const { client_config: config, ...members } = document;
  const protocol = document.protocol as ConnectorProtocol;
  return isJsonObject(config) ? { ...members, client_config: shownClientConfig(config, protocol) } : members;
}

/** Origins (scheme, host, port) its credential may be sent to, sorted: of `url`, or of the url of each action. Checked before. */
export function originsOf(connector: Connector): string[] {
  const addresses = connector.actions?.map(({ url }) => ownUrl(url, connector)) ?? [mcpUrl(connector)];
  return [...new Set(addresses.map((address) => new URL(address).origin))].sort();
}

/** `url` of an MCP connector with its own parameters filled in. */
export function mcpUrl(connector: Connector): string {
  return ownUrl(connector.url ?? '', connector);
}

/**
 * Checks what a connector points at and what it sends there: header rules, credentials that are there, addresses.
 * @throws INVALID_ARGUMENT, ENDPOINT_NOT_TRUSTED
 */
export function checkBlueprint(
  document: JsonObject,
  credential: Readonly<Record<string, string>>,
  policy: EndpointPolicy,
): void {
  const connector = connectorOf('', document, 0);
  if (connector.actions === undefined) {
    checkHeaders(connector.headers ?? {}, credential, 'mcp');
    checkAuthCredentials(document.auth, credential);
    checkPassthrough(connector);
    checkMcpAddress(connector, policy);
    return;
  }
  for (const action of connector.actions) checkHeaders(action.headers ?? {}, credential, 'http');
  for (const action of connector.actions) {
    refuseCredential(`the url of action ${action.action_type}`, compileText(action.url));
    refuseCredential(`the request_body of action ${action.action_type}`, compileBody(action.request_body ?? ''));
    checkAddress([ownUrl(action.url, connector)], policy);
  }
}

function checkMcpAddress(connector: Connector, policy: EndpointPolicy): void {
  refuseCredential('the url', compileText(connector.url ?? ''));
  const { endpoint } = connector.parameters;
  if (endpoint !== undefined && /[\s\\#]/.test(endpoint)) {
    throw new INVALID_ARGUMENT('parameters.endpoint must be a path such as /mcp, without spaces, backslashes and #.');
  }
  const url = mcpUrl(connector);
  checkAddress([url, mcpAddress(url, endpoint)], policy);
  if (/[?#]/.test(url)) {
    throw new INVALID_ARGUMENT(
      'The url of an MCP connector must not have a query or a fragment. Put a query into parameters.endpoint, such as /mcp?tenant=a.',
    );
  }
}

function ownUrl(url: string, { parameters }: Connector): string {
  return renderOwnUrl(compileText(url), parameters);
}

function refuseCredential(where: string, template: Template): void {
  const [key] = placeholderNames(template, 'credential');
  if (key === undefined) return;
  throw new INVALID_ARGUMENT(
    `Credential '${key.slice(0, 100)}' is used in ${where}. A credential can only be used in headers; use it in one of them.`,
  );
}
