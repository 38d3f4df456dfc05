import type { Connector } from '../connectors/types.ts';
import { INVALID_ARGUMENT, NOT_FOUND, UpstreamError } from '../errors.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { METHOD_NOT_FOUND, rpcCode } from './failures.ts';
import { remediesOf, remedyFor } from './remedies.ts';
import type { Session } from './session/session.ts';
import type { ServerContent, UseOptions } from './types.ts';

/** Runs work on the session with a server, opened if need be, once more in a new one when the session was lost. */
export type RunOnSession = <T>(
  connectorId: string,
  options: UseOptions,
  work: (session: Session, connector: Connector) => Promise<T>,
) => Promise<T>;

const INVALID_PARAMS = -32602;
/** Of a resource that does not exist, before 2026-07-28. */
const RESOURCE_NOT_FOUND = -32002;

/**
 * Prompts and resources of servers. What does not exist at the server is a 404, a capability that it does not have too;
 * arguments that it refuses are a 400.
 */
export function createServerContent({ run }: { readonly run: RunOnSession }): ServerContent {
  async function list(
    session: Session,
    connector: Connector,
    what: 'resources' | 'prompts',
    signal: AbortSignal | undefined,
  ): Promise<JsonObject[]> {
    requireOffered(session, connector, what);
    const { connection_timeout: pageSeconds, retry_timeout_seconds: allSeconds } = connector.clientConfig;
    const limits = { pageMs: pageSeconds * 1000, totalMs: allSeconds * 1000 };
    const method = what === 'resources' ? 'resources/list' : 'prompts/list';
    try {
      const { entries } = await session.items(method, what, limits, signal);
      return distinct(entries.filter(isJsonObject));
    } catch (error) {
      throw codeOf(error) === METHOD_NOT_FOUND ? notOffered(connector, what) : error;
    }
  }

  return {
    resources: (id, options = {}) =>
      run(id, options, (session, connector) => list(session, connector, 'resources', options.signal)),
    prompts: (id, options = {}) =>
      run(id, options, (session, connector) => list(session, connector, 'prompts', options.signal)),
    readResource: (id, uri, options = {}) =>
      run(id, options, async (session, connector) => {
        requireOffered(session, connector, 'resources');
        try {
          const result = await session.request('resources/read', { uri }, limitsOf(connector, options));
          return objectsIn(connector, result.contents, 'resources/read without contents');
        } catch (error) {
          const code = codeOf(error);
          if (code === METHOD_NOT_FOUND) throw notOffered(connector, 'resources');
          if (code !== INVALID_PARAMS && code !== RESOURCE_NOT_FOUND) throw error;
          throw new NOT_FOUND(`Connector ${id} has no resource ${uri}; GET ${path(id)}/resources lists them`);
        }
      }),
    prompt: (id, name, values, options = {}) =>
      run(id, options, async (session, connector) => {
        requireOffered(session, connector, 'prompts');
        try {
          const params = { name, arguments: { ...values } };
          const result = await session.request('prompts/get', params, limitsOf(connector, options));
          const messages = objectsIn(connector, result.messages, 'prompts/get without messages');
          return { messages, ...(typeof result.description === 'string' && { description: result.description }) };
        } catch (error) {
          const code = codeOf(error);
          if (code === METHOD_NOT_FOUND) throw notOffered(connector, 'prompts');
          if (code !== INVALID_PARAMS) throw error;
          const known = await list(session, connector, 'prompts', options.signal);
          if (known.some((prompt) => prompt.name === name)) throw new INVALID_ARGUMENT((error as Error).message);
          throw new NOT_FOUND(`Connector ${id} has no prompt named ${name}; GET ${path(id)}/prompts lists them`);
        }
      }),
  };
}

/** Each entry once: a server whose cursors go in circles gives a page again. */
function distinct(entries: readonly JsonObject[]): JsonObject[] {
  return [...new Map(entries.map((entry) => [canonicalJson(entry), entry])).values()];
}

function limitsOf({ clientConfig }: Connector, { signal }: UseOptions): { timeoutMs: number; signal?: AbortSignal } {
  return { timeoutMs: clientConfig.read_timeout * 1000, ...(signal && { signal }) };
}

function requireOffered(session: Session, connector: Connector, what: 'resources' | 'prompts'): void {
  if (!session.offers(what)) throw notOffered(connector, what);
}

function notOffered({ id }: Connector, what: 'resources' | 'prompts'): Error {
  return new NOT_FOUND(`The server of connector ${id} offers no ${what}`);
}

function objectsIn(connector: Connector, given: JsonValue | undefined, what: string): JsonObject[] {
  if (Array.isArray(given)) return given.filter(isJsonObject);
  throw new UpstreamError({
    code: 'invalid_response',
    destination: `connector "${connector.name}"`,
    message: `connector "${connector.name}" answered ${what}`,
    remedy: remedyFor('invalid_response', remediesOf(connector)),
    statusCode: 502,
    delivered: 'no',
  });
}

function codeOf(error: unknown): number | undefined {
  return error instanceof UpstreamError ? rpcCode(error) : undefined;
}

function path(connectorId: string): string {
  return `/_plugins/_ml/connectors/${connectorId}`;
}
