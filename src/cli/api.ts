import type { ClientConfig } from '../config.ts';
import { isJsonObject, type JsonObject, parseJson } from '../json.ts';
import { CommandFailure, EXIT } from './failure.ts';

/** The REST API of a running server. Anything but success is a `CommandFailure`. */
export interface Api {
  readonly url: string;
  request(method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, options?: RequestOptions): Promise<JsonObject>;
}

export interface RequestOptions {
  readonly body?: JsonObject;
  /** Default 60 s. */
  readonly timeoutMs?: number;
}

export interface ApiDeps extends Pick<ClientConfig, 'url'> {
  /** The value of `Authorization`; `undefined` sends none. */
  readonly authorization: () => Promise<string | undefined>;
}

const TIMEOUT_MS = 60_000;

export function createApi({ url, authorization }: ApiDeps): Api {
  async function send(method: string, path: string, { body, timeoutMs = TIMEOUT_MS }: RequestOptions) {
    const credentials = await authorization();
    const headers = {
      accept: 'application/json',
      ...(credentials === undefined ? {} : { authorization: credentials }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    try {
      const response = await fetch(`${url}${path}`, {
        method,
        headers,
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      throw unreachable(url, error as Error, timeoutMs);
    }
  }

  return {
    url,
    async request(method, path, options = {}) {
      const { status, text } = await send(method, path, options);
      const answer = parseJson(text);
      if (!isJsonObject(answer)) {
        throw new CommandFailure(
          `${url} answered ${status} without JSON: TENON_URL has to be the address of a Tenon server`,
          EXIT.unreachable,
          status,
        );
      }
      if (status >= 200 && status < 300) return answer;
      throw refused(status, reasonOf(answer));
    },
  };
}

function refused(status: number, reason: string): CommandFailure {
  if (status === 401) {
    const remedy = 'Set TENON_API_KEY to a key, or TENON_USER and TENON_PASSWORD.';
    return new CommandFailure(`The server does not know who is calling: ${reason}. ${remedy}`, EXIT.refused, status);
  }
  if (status === 403) return new CommandFailure(`Refused by the server: ${reason}`, EXIT.refused, status);
  return new CommandFailure(`The server answered ${status}: ${reason}`, EXIT.failed, status);
}

/** The text of an error, in any of the shapes the API has. */
function reasonOf(answer: JsonObject): string {
  const { error, message, reason: top } = answer;
  const { reason, details } = isJsonObject(error) ? error : {};
  const text = [reason, details, top, message, error].find((value) => typeof value === 'string' && value !== '');
  return typeof text === 'string' ? text : 'no reason was given';
}

const NOT_TRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

function unreachable(url: string, error: Error, timeoutMs: number): CommandFailure {
  return new CommandFailure(
    `Cannot reach a Tenon server at ${url}: ${causeOf(url, error, timeoutMs)}`,
    EXIT.unreachable,
  );
}

function causeOf(url: string, error: Error, timeoutMs: number): string {
  if (error.name === 'TimeoutError') return `no answer within ${timeoutMs / 1000} s`;
  const { code = '', message = error.message } = (error.cause ?? {}) as { code?: string; message?: string };
  if (NOT_TRUSTED.has(code)) {
    return `its certificate is not signed by a CA this machine trusts (${code}). Set NODE_EXTRA_CA_CERTS to the PEM file of that CA.`;
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `its certificate is for other names (${message})`;
  if (code === 'CERT_HAS_EXPIRED') return 'its certificate has expired';
  if (code.startsWith('ERR_SSL')) return 'it does not speak TLS there; TENON_URL may have to start with http://';
  if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') {
    const hint = url.startsWith('http:') ? '; if it serves TLS, TENON_URL has to start with https://' : '';
    return `the connection was closed${hint}`;
  }
  return `${message || code}. Is it running? TENON_URL names another address.`;
}
