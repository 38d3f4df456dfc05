import { INVALID_ARGUMENT } from '../errors.ts';
import { CALLER_CREDENTIAL_HEADERS } from '../schemas/connectors.ts';
import { isTransportOwned } from './headers.ts';
import type { Connector } from './types.ts';

/**
 * Whether a header of the caller stays here, whatever a connector names: it identifies the caller, or is the transport's.
 * `_` counts as `-`: many servers read both as one.
 */
export function isNeverPassed(name: string): boolean {
  const field = name.toLowerCase().replaceAll('_', '-');
  return CALLER_CREDENTIAL_HEADERS.includes(field) || field.startsWith('x-tenon-') || isTransportOwned(field, 'mcp');
}

/** @throws INVALID_ARGUMENT when one header has two sources */
export function checkPassthrough({ headers = {}, passthroughHeaders = [] }: Connector): void {
  const own = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const twice = passthroughHeaders.find((name) => own.has(name.toLowerCase()));
  if (twice === undefined) return;
  throw new INVALID_ARGUMENT(
    `passthrough_headers names '${twice}', which headers sets too. Name it in one of them: a header has one source.`,
  );
}

/**
 * The headers of a caller that go on to the server of this connector: those it names and the caller sent, in lower case.
 * Values are octets as they came.
 */
export function passedHeaders(
  { headers = {}, passthroughHeaders = [] }: Connector,
  sent: Readonly<Record<string, string>>,
): Record<string, string> {
  const own = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const fields = [...new Set(passthroughHeaders.map((name) => name.toLowerCase()))].sort();
  return Object.fromEntries(
    fields.flatMap((field): [string, string][] => {
      const value = Object.hasOwn(sent, field) ? sent[field] : undefined;
      return value === undefined || value === '' || own.has(field) || isNeverPassed(field) ? [] : [[field, value]];
    }),
  );
}
