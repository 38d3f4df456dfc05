import { TroubleError } from './failure.ts';
import type { OutboundRequest } from './types.ts';

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MAX_HOPS = 5;
const MAX_SHOWN = 300;

/**
 * Where a response sends the request next; `undefined` if it is no redirect.
 * @param clean cuts secrets: of the address only origin and path are shown, without what is secret in them
 * @throws TroubleError naming the address when it is not followed: another origin, a status that would change the method,
 * too many hops
 */
export function redirectTarget(
  mode: OutboundRequest['redirect'],
  status: number,
  location: string | undefined,
  from: URL,
  hops: number,
  clean: (text: string) => string,
): string | undefined {
  if (!REDIRECTS.has(status) || location === undefined) return undefined;
  if (!URL.canParse(location, from.href)) throw notFollowed(`with a Location that is not an address (${status}).`);
  const to = new URL(location, from.href);
  const shown = `to ${shownAddress(to, clean)} (${status})`;
  if (to.origin !== from.origin || to.username !== '' || to.password !== '') {
    throw notFollowed(`${shown}: a redirect to another origin is not followed.`, 'address_refused');
  }
  if (mode === 'refuse') throw notFollowed(`${shown}: redirects are not followed here.`);
  if (status !== 307 && status !== 308) {
    throw notFollowed(`${shown}: only 307 and 308 keep the method and are followed.`);
  }
  if (hops >= MAX_HOPS) throw notFollowed(`${shown}: more than ${MAX_HOPS} redirects.`);
  return to.href;
}

/** Origin and path; no user, query or fragment. Cut only after the secrets are, lest half of one remains. */
function shownAddress(to: URL, clean: (text: string) => string): string {
  const origin = `${to.protocol}//${to.host}`;
  const written = clean(`${origin}${to.pathname}`);
  if (written !== `${origin}${to.pathname}`) return written.slice(0, MAX_SHOWN);
  const read = decoded(to.pathname);
  return clean(read) === read ? written.slice(0, MAX_SHOWN) : `${origin}/…`;
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function notFollowed(text: string, code: 'wrong_path' | 'address_refused' = 'wrong_path'): TroubleError {
  return new TroubleError({
    code,
    text: `redirects ${text}`,
    delivered: 'no',
    retryable: false,
    remedy: 'If that address is the right one, use it in place of the configured one.',
  });
}
