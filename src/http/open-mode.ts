import { isIP } from 'node:net';

export interface OpenRequest {
  readonly method: string;
  /** As it stands in the request line; a whole address (`http://host/path`) names the host that is meant. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly peer: string | undefined;
  readonly localPort: number | undefined;
  /** It came over TLS. */
  readonly secure?: boolean;
}

/** Fields that proxies, load balancers and content networks add; `_` counts as `-`. */
const FORWARDING = new RegExp(
  `^(${[
    'forwarded',
    'via',
    'x-forwarded(-.+)?',
    'x-(original|originating|envoy|azure|arr|appengine|vercel|akamai)-.+',
    '(cf|fastly|fly|akamai|cloudfront)-.+',
    'cdn-loop',
    '(x-|true-|x-cluster-|proxy-|wl-proxy-)?client-ip',
    'x-(real|remote)-(ip|addr)',
    'x-proxyuser-ip',
    'x-scheme',
    'x-nginx-proxy',
    'front-end-https',
    'do-connecting-ip',
    'x-amzn-trace-id',
    'x-request-start',
  ].join('|')})$`,
);
const TOP_LEVEL_PATHS: readonly string[] = ['/', '/oauth/callback'];
const REMEDY =
  'The server runs without authentication. Add a user (tenon users add, or TENON_ADMIN_PASSWORD at start) or set TENON_API_KEY to let other callers in';

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
  const { headers, localPort, secure } = request;
  if (request.peer === undefined || !isLoopback(request.peer)) return `Only loopback callers are answered. ${REMEDY}`;
  const host = typeof headers['host'] === 'string' ? headers['host'] : '';
  if (!isOwnHost(host, localPort)) {
    return `The Host header must be a loopback name (localhost, 127.0.0.1 or [::1]) with this server's port. ${REMEDY}`;
  }
  if (!request.target.startsWith('/') && !isOwnHost(authorityOf(request.target), localPort)) {
    return `The request line names another host than this server. ${REMEDY}`;
  }
  const forwarded = Object.keys(headers).find((name) => FORWARDING.test(name.replaceAll('_', '-')));
  if (forwarded !== undefined) {
    return `The request was forwarded by a proxy (header ${forwarded}), so its caller is not known. ${REMEDY}`;
  }
  if (isTopLevel(request)) return undefined;
  const { origin } = headers;
  if (origin !== undefined && String(origin).toLowerCase() !== `${secure ? 'https' : 'http'}://${host.toLowerCase()}`) {
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

/** The host of a target that is a whole address (RFC 9112 3.2.2), which counts in place of the Host field. */
function authorityOf(target: string): string {
  return /^https?:\/\/([^/?#]*)/i.exec(target)?.[1] ?? '';
}

/** A person follows a link or is sent back by a sign-in page: harmless where the answer changes nothing. */
function isTopLevel({ method, target, headers }: OpenRequest): boolean {
  if (method !== 'GET' || !TOP_LEVEL_PATHS.includes(target.split('?', 1)[0] ?? '')) return false;
  const mode = headers['sec-fetch-mode'] ?? 'navigate';
  const destination = headers['sec-fetch-dest'] ?? 'document';
  return mode === 'navigate' && destination === 'document';
}
