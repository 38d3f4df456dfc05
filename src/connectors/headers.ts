import { INVALID_ARGUMENT } from '../errors.ts';
import { compileText, ownValue, type Placeholder, placeholderNames, type Template } from './template.ts';

type Values = Readonly<Record<string, string>>;
export type HeaderSide = 'http' | 'mcp';

const SENSITIVE = new Set(
  'authorization proxy-authorization cookie x-api-key x-auth-token x-auth-header x-forwarded-for x-real-ip x-client-ip cf-connecting-ip true-client-ip x-originating-ip host x-forwarded-host x-forwarded-server forwarded'.split(
    ' ',
  ),
);
const OWNED_BY_HTTP = new Set(
  'host content-length transfer-encoding connection keep-alive proxy-connection te trailer upgrade expect accept-encoding'.split(
    ' ',
  ),
);
const OWNED_BY_MCP = new Set(['accept', 'content-type', 'last-event-id']);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** RFC 9110 5.5: a field value holds no control characters but the tab. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to refuse
const CONTROL = /[\0-\x08\n-\x1f\x7f]/;
const UNKNOWN_PLACEHOLDER = /\$(?:\{[^}]*\}|<\w+\.[^>]*>)/;

/** Whether the transport sets this field itself: a configured one is not sent, so that it cannot break the exchange. */
export function isTransportOwned(name: string, side: HeaderSide): boolean {
  const field = name.toLowerCase();
  return OWNED_BY_HTTP.has(field) || (side === 'mcp' && (OWNED_BY_MCP.has(field) || field.startsWith('mcp-')));
}

/** Names of configured headers that are not sent because the transport owns them. */
export function ignoredHeaders(headers: Values, side: HeaderSide): string[] {
  return Object.keys(headers).filter((name) => isTransportOwned(name, side));
}

/** Compiles a template, from the owner's cache. */
type Compile = (text: string) => Template;

/**
 * One entry per field name, whatever its spelling: of several the one that holds a credential, otherwise the last.
 * Fields of the transport are dropped.
 */
export function effectiveHeaders(headers: Values, side: HeaderSide): [name: string, template: string][] {
  const fields = new Map<string, [string, string]>();
  for (const [name, text] of Object.entries(headers)) {
    if (isTransportOwned(name, side)) continue;
    const field = name.toLowerCase();
    const before = fields.get(field);
    if (before !== undefined && holdsCredential(before[1]) && !holdsCredential(text)) continue;
    fields.set(field, [name, text]);
  }
  return [...fields.values()];
}

/**
 * Checks header templates when a connector is created or updated: names, placeholders, and that every credential they
 * use is there and can be sent. No message shows a value.
 * @throws INVALID_ARGUMENT naming the header and the key
 */
export function checkHeaders(headers: Values, credential: Values, side: HeaderSide): void {
  for (const [name, text] of Object.entries(headers)) {
    requireName(name);
    checkPlaceholders(name, text, side);
    for (const part of compileText(text)) {
      if (typeof part === 'string') refuseControls(name, part, 'Its text');
      else if (part.scope === 'credential') credentialValue(name, part, credential);
      else refuseControls(name, part.fallback ?? '', 'Its text');
    }
  }
}

function requireName(name: string): void {
  if (!TOKEN.test(name)) throw new INVALID_ARGUMENT(`Header '${printable(name)}' is not a valid HTTP header name.`);
}

function checkPlaceholders(name: string, text: string, side: HeaderSide): void {
  if (text.includes('${parameters.') && side === 'mcp') {
    throw new INVALID_ARGUMENT(`Header '${name}' cannot use \${parameters.*} placeholders in MCP connectors.`);
  }
  if (text.includes('${parameters.') && SENSITIVE.has(name.toLowerCase())) {
    throw new INVALID_ARGUMENT(
      `Header '${name}' cannot use \${parameters.*} placeholders for security reasons. Use \${credential.*} instead.`,
    );
  }
  for (const part of compileText(text)) {
    const unknown = typeof part === 'string' ? UNKNOWN_PLACEHOLDER.exec(part)?.[0] : undefined;
    if (unknown === undefined) continue;
    throw new INVALID_ARGUMENT(
      `Header '${name}' holds '${printable(unknown)}', which is not a placeholder. Use \${credential.<key>} and give the key in credential.`,
    );
  }
}

function credentialValue(name: string, { name: key, source }: Placeholder, credential: Values): string {
  const value = ownValue(credential, key);
  if (value === undefined || value === '') {
    const fault = value === '' ? 'is empty' : 'is not given';
    throw new INVALID_ARGUMENT(
      `Header '${name}' uses ${printable(source)}, but the credential '${printable(key)}' ${fault}. Give it a value in credential.`,
    );
  }
  refuseControls(name, value, `The value of credential '${printable(key)}'`);
  return value;
}

function parameterValue(name: string, { name: key, fallback, source }: Placeholder, parameters: Values): string {
  const value = ownValue(parameters, key) ?? fallback;
  if (value === undefined || value === '') {
    throw new INVALID_ARGUMENT(
      `Header '${name}' uses ${printable(source)}, which has no value. Give it in parameters.`,
    );
  }
  refuseControls(name, value, `The value of parameter '${printable(key)}'`);
  return value;
}

/**
 * Header fields ready for the HTTP client: values are latin1-decoded octets of their UTF-8 text, so that the octets on the
 * wire are the stored ones. A `Basic` value that still holds a colon is encoded as RFC 7617 wants it, from UTF-8.
 * @throws INVALID_ARGUMENT naming the header and the key, never a value
 */
export function renderHeaders(
  headers: Values,
  values: { credential: Values; parameters: Values },
  side: HeaderSide,
  compile: Compile = compileText,
): Record<string, string> {
  const rendered = effectiveHeaders(headers, side).map(([name, text]) => {
    const value = compile(text).map((part) => {
      if (typeof part === 'string') return part;
      return part.scope === 'credential'
        ? credentialValue(name, part, values.credential)
        : parameterValue(name, part, values.parameters);
    });
    return [name, Buffer.from(basicEncoded(name, value.join('')), 'utf8').toString('latin1')];
  });
  return Object.fromEntries(rendered);
}

/**
 * The same for headers without placeholders, checked: their text is sent as it is.
 * @throws INVALID_ARGUMENT naming the header, never a value
 */
export function renderLiteralHeaders(headers: Values): Record<string, string> {
  for (const [name, text] of Object.entries(headers)) {
    requireName(name);
    refuseControls(name, text, 'Its value');
  }
  return renderHeaders(headers, { credential: {}, parameters: {} }, 'mcp', (text) => [text]);
}

/** `user:password` after `Basic ` becomes base64 (which cannot hold a colon); anything else stays as it is. */
function basicEncoded(name: string, value: string): string {
  if (!/^(?:proxy-)?authorization$/i.test(name)) return value;
  const basic = /^(basic) +(.*:.*)$/is.exec(value);
  return basic === null ? value : `${basic[1]} ${Buffer.from(basic[2] ?? '', 'utf8').toString('base64')}`;
}

function refuseControls(name: string, value: string, what: string): void {
  if (!CONTROL.test(value)) return;
  throw new INVALID_ARGUMENT(
    `Header '${name}' cannot be sent: ${what} holds a line break or another control character. Remove it.`,
  );
}

function holdsCredential(text: string): boolean {
  return placeholderNames(compileText(text), 'credential').length > 0;
}

function printable(text: string): string {
  return JSON.stringify(text.slice(0, 100)).slice(1, -1);
}
