import { INVALID_ARGUMENT } from '../errors.ts';

/** Query parameters that every route accepts (contract 0.2). */
export const SERVER_WIDE_PARAMETERS: readonly string[] = [
  'pretty',
  'human',
  'error_trace',
  'filter_path',
  'source',
  'source_content_type',
  'format',
];

/** A boolean query parameter: present without a value, or anything but `false`, is true. */
export function truthy(value: unknown): boolean {
  const last = Array.isArray(value) ? value.at(-1) : value;
  return last !== undefined && last !== 'false';
}

/** The text of a query parameter; of one that is repeated, the last. */
export function queryText(value: unknown): string | undefined {
  const last = Array.isArray(value) ? value.at(-1) : value;
  return typeof last === 'string' ? last : undefined;
}

/** A whole number in a query parameter, or its default. @throws INVALID_ARGUMENT naming the range */
export function wholeNumber(
  value: unknown,
  name: string,
  range: { readonly least: number; readonly most: number; readonly default: number },
): number {
  const text = queryText(value);
  if (value === undefined) return range.default;
  const number = text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= range.least && number <= range.most) return number;
  throw new INVALID_ARGUMENT(`${name} must be a whole number from ${range.least} to ${range.most}`);
}
