import { addressRange, isMappedAddress } from './address-range.ts';
import { compilePattern, type Pattern } from './pattern.ts';
import type { EndpointPolicy } from './types.ts';

const TRUSTED = 'plugins.ml_commons.trusted_connector_endpoints_regex';
const TRUSTED_PRIVATE = 'plugins.ml_commons.trusted_connector_private_endpoints_regex';
const RESTRICTED = 'plugins.ml_commons.connector.restricted_ip_patterns';
const ENVIRONMENT = { [TRUSTED]: 'TENON_TRUSTED_ENDPOINTS', [TRUSTED_PRIVATE]: 'TENON_TRUSTED_PRIVATE_ENDPOINTS' };

const LOOPBACK_HOSTS: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);
const METADATA_HOSTS: readonly string[] = [
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'instance-data.ec2.internal',
  'instance-data',
];

export interface Refusal {
  readonly allowed: false;
  /** `empty_list`: a trusted list is set and empty. `forbidden`: no trusted list can ever allow it. */
  readonly kind: 'untrusted' | 'empty_list' | 'private' | 'forbidden' | 'malformed';
  /** Sentences for the caller: what is wrong and what would allow it. No path, query or user name of the address. */
  readonly reason: string;
  /** Full name of the setting that decides. */
  readonly setting?: string;
}
export type Verdict = { readonly allowed: true } | Refusal;

/** Which resolved addresses a request may connect to. Equal reaches and restrictions may share connections. */
export type Reach = 'public' | 'public+loopback' | 'public+private' | 'loopback';

export type Inspection = { readonly allowed: true; readonly url: URL; readonly reach: Reach } | Refusal;

interface Spelling {
  readonly url: URL;
  /** Scheme and authority as written. */
  readonly origin: string;
  /** Host as written, with brackets for IPv6. */
  readonly host: string;
  /** Address without brackets, if the host is one. */
  readonly literal: string | undefined;
  /** What the lists are matched against: the text as written, or resolved where it holds dot segments. */
  readonly text: string;
}

const ALLOWED: Verdict = { allowed: true };

/**
 * May a connector point at this address? Judges the text alone (scheme, spelling, literal hosts, lists); names are judged
 * again by `judgeAddress` when they are resolved.
 */
export function judgeUrl(rawUrl: string, policy: EndpointPolicy): Verdict {
  const inspection = inspectUrl(rawUrl, policy);
  return inspection.allowed ? ALLOWED : inspection;
}

/** May `rawUrl` be contacted at this resolved address (textual form, no brackets)? */
export function judgeAddress(address: string, rawUrl: string, policy: EndpointPolicy): Verdict {
  const inspection = inspectUrl(rawUrl, policy);
  if (!inspection.allowed) return inspection;
  return judgeResolved(address, spell(rawUrl) as Spelling, inspection.reach, policy);
}

/** `judgeUrl` with what it found out: the parsed address and which resolved addresses it may use. */
export function inspectUrl(rawUrl: string, policy: EndpointPolicy): Inspection {
  const spelling = spell(rawUrl);
  if ('allowed' in spelling) return spelling;
  const never = judgeHost(spelling, policy);
  if (never !== undefined) return never;
  const reach = reachOf(spelling, policy);
  if (typeof reach !== 'string') return reach;
  const target = spelling.literal ?? (spelling.host === 'localhost' ? '127.0.0.1' : undefined);
  const verdict = target === undefined ? ALLOWED : judgeResolved(target, spelling, reach, policy);
  return verdict.allowed ? { allowed: true, url: spelling.url, reach } : verdict;
}

/**
 * Compiles a list setting of whole-match patterns (Java's `matches`).
 * @throws INVALID_ARGUMENT naming the pattern, and `setting` if given
 */
export function compilePatterns(list: readonly string[], setting?: string): Pattern[] {
  return list.map((text) => compilePattern(text, setting === undefined ? '' : ` of ${setting}`));
}

function spell(rawUrl: string): Spelling | Refusal {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(rawUrl)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    return malformed(`Only http and https addresses can be used, not ${scheme}.`);
  }
  const [, origin, authority, rest] = /^(https?:\/\/([^/?#]*))([\s\S]*)$/i.exec(rawUrl) ?? [];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these must not pass
  if (!origin || !authority || rest === undefined || /[\u0000-\u0020\u007f\\]/.test(rawUrl) || !URL.canParse(rawUrl)) {
    return malformed('The address is not a valid URL: write http(s)://host[:port]/path, percent-encoded where needed.');
  }
  if (authority.includes('@')) {
    return malformed('The address holds a user name or password: put them into credential and a header instead.');
  }
  const url = new URL(rawUrl);
  const host = authority.replace(/:\d*$/, '');
  const bare = url.hostname.replace(/^\[|\]$/g, '');
  const literal = addressRange(bare) === undefined ? undefined : bare;
  const plain = literal === undefined ? /^[\w.-]*[\w-]$/.test(host) : !isMappedAddress(literal);
  if (!plain || host.toLowerCase() !== url.hostname) {
    const kind = literal === undefined ? 'host' : 'numeric host';
    return malformed(
      `The ${kind} of the address is not in its plain spelling: write names in ASCII (xn--…) without a closing dot, IPv4 as four decimal numbers, IPv6 in its shortest form.`,
    );
  }
  const text = /\/(\.|%2e){1,2}([/?#]|$)/i.test(rest) ? url.href : rawUrl;
  return { url, origin, host, literal, text };
}

/** What no list can allow. */
function judgeHost({ url, literal }: Spelling, policy: EndpointPolicy): Refusal | undefined {
  if (METADATA_HOSTS.some((name) => url.hostname === name || url.hostname.endsWith(`.${name}`))) {
    return forbidden(`${url.hostname} is a cloud metadata service`);
  }
  return literal === undefined ? undefined : judgeNever(literal, url.hostname, policy);
}

function judgeNever(address: string, shown: string, policy: EndpointPolicy): Refusal | undefined {
  if (addressRange(address) === 'forbidden') {
    return forbidden(`${shown} is a link-local, metadata, multicast or unspecified address`);
  }
  if (fullyMatches(policy.restrictedIps, address)) {
    return { allowed: false, kind: 'forbidden', reason: `${shown} is refused by ${RESTRICTED}.`, setting: RESTRICTED };
  }
  return undefined;
}

function reachOf(spelling: Spelling, policy: EndpointPolicy): Reach | Refusal {
  const { trusted } = policy;
  const loopbackHost = LOOPBACK_HOSTS.has(spelling.host);
  if (fullyMatches(policy.trustedPrivate, spelling.text)) return 'public+private';
  if (trusted === undefined) {
    if (policy.loopbackAllowed && loopbackHost) return 'loopback';
    if (spelling.url.protocol === 'http:') return refusePlain(spelling, loopbackHost);
    return policy.privateIpEnabled ? 'public+private' : 'public';
  }
  if (trusted.length === 0) {
    const reason = `Trusted connector endpoints regex is not configured. Please set ${TRUSTED}.`;
    return { allowed: false, kind: 'empty_list', reason, setting: TRUSTED };
  }
  if (!fullyMatches(trusted, spelling.text)) {
    const list =
      loopbackHost || spelling.literal === undefined || isPublic(spelling.literal) ? TRUSTED : TRUSTED_PRIVATE;
    return refuse('untrusted', `${spelling.origin} is not named by ${TRUSTED}.`, list, spelling);
  }
  if (policy.privateIpEnabled) return 'public+private';
  return loopbackHost ? 'public+loopback' : 'public';
}

function refusePlain(spelling: Spelling, loopbackHost: boolean): Refusal {
  if (loopbackHost || (spelling.literal !== undefined && !isPublic(spelling.literal))) {
    return refusePrivate(spelling.host, spelling);
  }
  return refuse('untrusted', `${spelling.origin} is not https.`, TRUSTED_PRIVATE, spelling);
}

function judgeResolved(address: string, spelling: Spelling, reach: Reach, policy: EndpointPolicy): Verdict {
  const shown = spelling.literal === undefined ? `${spelling.host} (${address})` : spelling.host;
  const never = judgeNever(address, shown, policy);
  if (never !== undefined) return never;
  const range = addressRange(address);
  if (range === undefined) return malformed(`${spelling.host} resolves to something that is not an address.`);
  if (range === 'public') {
    if (reach !== 'loopback') return ALLOWED;
    return refuse('untrusted', `${shown} is not a loopback address.`, TRUSTED_PRIVATE, spelling);
  }
  if (reach === 'public+private' || (range === 'loopback' && reach !== 'public')) return ALLOWED;
  return refusePrivate(shown, spelling);
}

function isPublic(address: string): boolean {
  return addressRange(address) === 'public';
}

function fullyMatches(patterns: readonly Pattern[], text: string): boolean {
  return patterns.some((pattern) => pattern.test(text));
}

function malformed(reason: string): Refusal {
  return { allowed: false, kind: 'malformed', reason };
}

function forbidden(what: string): Refusal {
  return { allowed: false, kind: 'forbidden', reason: `${what}; no setting allows it.` };
}

function refusePrivate(shown: string, spelling: Spelling): Refusal {
  const what = `Remote inference host name has private ip address: ${shown}.`;
  return refuse('private', what, TRUSTED_PRIVATE, spelling);
}

function refuse(kind: Refusal['kind'], what: string, setting: keyof typeof ENVIRONMENT, { origin }: Spelling): Refusal {
  const pattern = `${origin.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}([/?].*)?`;
  const remedy = `To allow it, add ${JSON.stringify(pattern)} to the list ${setting} (PUT /_cluster/settings), or ${pattern} to ${ENVIRONMENT[setting]}.`;
  return { allowed: false, kind, reason: `${what} ${remedy}`, setting };
}
