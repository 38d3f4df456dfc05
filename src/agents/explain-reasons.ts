import { speaksMcp } from '../connectors/protocols.ts';
import type { Connector } from '../connectors/types.ts';
import type { UpstreamError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { ConnectionReport } from '../mcp/types.ts';
import type { Settings } from '../settings/types.ts';
import type { KnownTool, KnownTools } from '../tools/known-tools.ts';
import type { WithheldCode } from '../tools/verdicts.ts';

/** Why something is as it is; a code never changes its meaning. */
export interface Reason {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
}

/** Something that an agent refers to and that does not work, and which it is. */
export interface Problem extends Reason {
  readonly connector_id?: string;
  readonly model_id?: string;
  readonly agent_id?: string;
}

/** How a connection is; `failure`: why its list could not be read though it is open. */
export interface ConnectionState {
  readonly report?: ConnectionReport;
  readonly failure?: UpstreamError;
}

/** `obstacles` keep calls from working, `notes` do not. */
interface Reasons {
  readonly obstacles: readonly Reason[];
  readonly notes: readonly Reason[];
}

export const MCP_ENABLED = 'plugins.ml_commons.mcp_connector_enabled';

export function reason(code: string, message: string, remedy: string): Reason {
  return { code, message, remedy };
}

/** What a connection says about all tools of its connector. */
export function connectionReasons(
  connector: Connector,
  { report, failure }: ConnectionState,
  principal: Principal,
  settings: Pick<Settings, 'flag'>,
): Reasons {
  const { id, name } = connector;
  const of = `Connector "${name}" (${id})`;
  if (!speaksMcp(connector)) {
    return obstacle(
      'wrong_protocol',
      `${of} is of protocol ${connector.protocol}; an agent takes tools from MCP servers only.`,
      'Name a connector of protocol mcp_streamable_http.',
    );
  }
  if (!settings.flag(MCP_ENABLED)) {
    return obstacle('mcp_disabled', 'MCP connectors are switched off.', `Set ${MCP_ENABLED} to true.`);
  }
  if (!principal.access.allows('connector:use')) {
    return obstacle(
      'no_permission',
      'You need the permission connector:use to use a connector through an agent.',
      'Have an administrator give you a role with connector:use.',
    );
  }
  const error = report?.error;
  const said = error === undefined ? '' : ` ${error.message}`;
  switch (report?.status) {
    case 'failed':
      return obstacle(
        'connection_failed',
        `${of} has failed (${error?.code ?? 'unknown'}).${said}`,
        error?.remedy ?? `POST /_plugins/_ml/connectors/${id}/_reconnect`,
      );
    case 'auth_required':
      return obstacle(
        'auth_required',
        `The server of connector "${name}" (${id}) refuses the credential.${said}`,
        error?.remedy ?? `Give a new credential by PUT /_plugins/_ml/connectors/${id}.`,
      );
    case 'disabled':
      return obstacle('disabled', `${of} is switched off.`, `POST /_plugins/_ml/connectors/${id}/_enable`);
    case 'idle':
      return note(
        'connection_idle',
        `${of} is not open now; the next use opens it.`,
        'Nothing; ?probe=true opens it now.',
      );
    case 'connecting':
      return note('connection_connecting', `${of} is being opened; calls wait for it.`, 'Wait for it.');
    default:
      if (failure === undefined) return { obstacles: [], notes: [] };
      return obstacle(
        'list_failed',
        `${of} is open, and its tools could not be listed (${failure.code}). ${failure.message}`,
        failure.remedy ?? `POST /_plugins/_ml/connectors/${id}/_reconnect`,
      );
  }
}

/** What is said of a connector that does not exist. */
export function missingReasons(connectorId: string): Reasons {
  return obstacle(
    'connector_missing',
    `There is no connector ${connectorId}.`,
    'Create the connector, or update the agent so that it names another one.',
  );
}

const WITHHELD_REMEDY: Readonly<Record<WithheldCode, string>> = {
  denied_by_policy: 'Change tool_permissions of the agent, or the setting plugins.ml_commons.tool_permission_default.',
  pin_changed:
    'Look at the difference with GET /_plugins/_ml/agents/{id}/_pins, approve it with POST /_plugins/_ml/agents/{id}/_pins/_approve.',
  pin_new:
    'Look at it with GET /_plugins/_ml/agents/{id}/_pins, approve it with POST /_plugins/_ml/agents/{id}/_pins/_approve.',
};

/** What the agent, its pins and the roles of the caller say about one tool. */
export function toolReasons(
  { definition: { name }, present, wanted, offeredAs, verdict }: KnownTool,
  { connectorId, connector }: KnownTools,
  { access }: Principal,
): Reasons {
  const obstacles: Reason[] = [];
  const notes: Reason[] = [];
  if (!present) {
    const message = 'Its server does not list it any more.';
    obstacles.push(
      reason('absent', message, 'Ask the operator of the server; take it out of the agent if it is gone.'),
    );
  } else if (!wanted) {
    const message = 'No pattern of the tool_filters of the agent matches its whole name.';
    obstacles.push(reason('filtered_out', message, 'Add a pattern to tool_filters that matches the whole name.'));
  }
  if (access.deniesTool(connectorId, name)) {
    const message = 'A role of yours denies it (denied_tools).';
    obstacles.push(reason('denied_by_role', message, 'Have an administrator change the denied_tools of that role.'));
  }
  const { withheld, changed, permission } = verdict;
  if (withheld !== undefined) {
    obstacles.push(reason(withheld.code, sentence(withheld.message), WITHHELD_REMEDY[withheld.code]));
  }
  if (changed !== undefined) {
    const message = `Its ${changed.join(', ')} changed since it was pinned; it is offered all the same.`;
    notes.push(reason('definition_changed', message, WITHHELD_REMEDY.pin_changed));
  }
  if (permission === 'ask') {
    const message = 'Each call waits until a person approves it; in a run that nobody attends it is refused.';
    notes.push(reason('needs_approval', message, 'Run the agent with ?async=true, and answer its requests.'));
  }
  if (offeredAs !== undefined && offeredAs !== name) notes.push(renamed(name, offeredAs, connector));
  return { obstacles, notes };
}

function renamed(name: string, offeredAs: string, connector: Connector | undefined): Reason {
  const why =
    connector?.declared !== undefined
      ? 'tools of a declared server carry its name'
      : /^[a-zA-Z0-9_-]{1,64}$/.test(name)
        ? 'another tool of the agent has that name already'
        : 'models take names of 1 to 64 letters, digits, _ and - only';
  return reason(
    'renamed',
    `It is offered as ${offeredAs}: ${why}.`,
    'Use the offered name in prompts and selected_tools.',
  );
}

function obstacle(code: string, message: string, remedy: string): Reasons {
  return { obstacles: [reason(code, message, remedy)], notes: [] };
}

function note(code: string, message: string, remedy: string): Reasons {
  return { obstacles: [], notes: [reason(code, message, remedy)] };
}

function sentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;
}
