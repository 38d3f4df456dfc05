import { INVALID_ARGUMENT } from '../errors.ts';
import { ownValue, type Placeholder, type Template } from './template.ts';

/** Scheme and authority are complete: whatever follows is path, query or fragment. */
const AUTHORITY_CLOSED = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]*[/?#\\]/i;

type Values = Readonly<Record<string, string>>;

/**
 * Renders the url of an action for one call. Values after the authority are percent-encoded, so that each fills a path
 * segment or a query value and nothing more; scheme, host and port take the connector's `own` parameters alone, as they are.
 * @throws INVALID_ARGUMENT naming the parameter that is missing, empty, a dot segment, or would change the origin.
 */
export function renderUrl(template: Template, own: Values, given: Values): string {
  return render(template, own, given, ({ name }) => {
    throw new INVALID_ARGUMENT(`Parameter '${name}' of the connector url has no value. Give it in parameters.`);
  });
}

/** The url as far as it is known without a call: what the call has to fill stays as it is written. @throws INVALID_ARGUMENT */
export function renderOwnUrl(template: Template, own: Values): string {
  return render(template, own, {}, ({ source }) => source);
}

function render(template: Template, own: Values, given: Values, absent: (placeholder: Placeholder) => string): string {
  let url = '';
  for (const part of template) {
    if (typeof part === 'string') url += part;
    else if (AUTHORITY_CLOSED.test(url)) url += encoded(part, own, given, absent);
    else url += originPart(part, own, given);
  }
  return url;
}

function encoded(part: Placeholder, own: Values, given: Values, absent: (placeholder: Placeholder) => string): string {
  const { name, fallback } = part;
  const value = ownValue(given, name) ?? ownValue(own, name);
  if (value === undefined && fallback !== undefined) return fallback;
  if (value === undefined || value === '') return absent(part);
  if (value === '.' || value === '..') {
    throw new INVALID_ARGUMENT(
      `Parameter '${name}' must not be '${value}': it would change the path of the connector url.`,
    );
  }
  return encodeURIComponent(value.replaceAll(/\p{Surrogate}/gu, '\ufffd'));
}

function originPart({ name, fallback }: Placeholder, own: Values, given: Values): string {
  const value = ownValue(own, name) ?? fallback;
  if (value === undefined || value === '') {
    throw new INVALID_ARGUMENT(
      `Parameter '${name}' fills the host of the connector url, so the connector's own parameters must hold a value for it.`,
    );
  }
  if ((ownValue(given, name) ?? value) !== value) {
    throw new INVALID_ARGUMENT(
      `Parameter '${name}' cannot be changed by a request: it fills the host of the connector url, and a credential never follows an address.`,
    );
  }
  return value;
}
