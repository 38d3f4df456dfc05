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
