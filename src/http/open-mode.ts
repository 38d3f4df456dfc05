import { isIP } from 'node:net';

export interface OpenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly peer: string | undefined;
  readonly localPort: number | undefined;
}

const FORWARDING =
  /^(forwarded|via|x-forwarded(-.+)?|x-real-ip|x-client-ip|x-cluster-client-ip|cf-connecting-ip|true-client-ip)$/;
const TOP_LEVEL_PATHS: readonly string[] = ['/', '/oauth/callback'];
const REMEDY = 'The server runs without authentication. Set TENON_API_KEY to let other callers in';

/** Whether an address or host name is this machine's own: `localhost`, `127.0.0.0/8`, `::1`. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').replace(/^::ffff:(?=\d+\.)/i, '');
  if (bare.toLowerCase() === 'localhost' || bare === '::1') return true;
  return isIP(bare) === 4 && bare.startsWith('127.');
}

/**
 * Why open mode does not answer this request, or `undefined` when it does: only a loopback peer that names a loopback
 * host, reached through no proxy, and not a page of another origin (which a browser would let send, not read).
 */
export function refusalInOpenMode(request: OpenRequest): string | undefined {
  const { headers, localPort } = request;
  if (request.peer === undefined || !isLoopback(request.peer)) return `Only loopback callers are answered. ${REMEDY}`;
  const host = typeof headers['host'] === 'string' ? headers['host'] : '';
  if (!isOwnHost(host, localPort)) {
    return `The Host header must be a loopback name (localhost, 127.0.0.1 or [::1]) with this server's port. ${REMEDY}`;
  }
  const forwarded = Object.keys(headers).find((name) => FORWARDING.test(name));
  if (forwarded !== undefined) {
    return `The request was forwarded by a proxy (header ${forwarded}), so its caller is not known. ${REMEDY}`;
  }
  if (isTopLevel(request)) return undefined;
  const { origin } = headers;
  if (origin !== undefined && String(origin).toLowerCase() !== `http://${host.toLowerCase()}`) {
    return `The request comes from a page of another origin. ${REMEDY}`;
  }
  if (headers['sec-fetch-site'] === 'cross-site') return `The request comes from a page of another site. ${REMEDY}`;
  return undefined;
}

function isOwnHost(host: string, localPort: number | undefined): boolean {
  const parts = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(host);
  if (!parts?.[1] || !isLoopback(parts[1])) return false;
  return parts[2] === undefined || Number(parts[2]) === localPort;
}

/** A person follows a link or is sent back by a sign-in page: harmless where the answer changes nothing. */
function isTopLevel({ method, path, headers }: OpenRequest): boolean {
  if (method !== 'GET' || !TOP_LEVEL_PATHS.includes(path)) return false;
  const mode = headers['sec-fetch-mode'] ?? 'navigate';
  const destination = headers['sec-fetch-dest'] ?? 'document';
  return mode === 'navigate' && destination === 'document';
}
