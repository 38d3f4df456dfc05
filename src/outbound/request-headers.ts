import { INVALID_ARGUMENT } from '../errors.ts';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Framing and connection fields belong to the HTTP client (RFC 9110 section 7.6.1, RFC 9112 section 6). */
const OWNED: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Lower-cases and checks header fields, and adds what every request of ours carries.
 * @throws INVALID_ARGUMENT naming the field, never its value
 */
export function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const checked: Record<string, string> = { 'user-agent': 'tenon', 'accept-encoding': 'gzip, deflate, br' };
  const seen = new Set<string>();
  for (const [given, value] of Object.entries(headers)) {
    const name = given.toLowerCase();
    if (!TOKEN.test(given))
      throw new INVALID_ARGUMENT(`Header name ${JSON.stringify(given)} is not a legal field name`);
    if (seen.has(name)) throw new INVALID_ARGUMENT(`Header '${given}' is given twice: names differ in case only`);
    if (OWNED.has(name)) throw new INVALID_ARGUMENT(`Header '${given}' is set by the transport and cannot be given`);
    if (!FIELD_VALUE.test(value)) {
      throw new INVALID_ARGUMENT(
        `Header '${given}' holds a line break, NUL or another character that a header cannot carry (its value is not shown)`,
      );
    }
    seen.add(name);
    checked[name] = value;
  }
  return checked;
}
