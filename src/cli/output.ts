import type { JsonValue } from '../json.ts';

/** Indented JSON that cannot steer a terminal: what JSON leaves as it is, is escaped too. */
export function jsonText(value: JsonValue): string {
  const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, 2).replace(/(?!\n)\p{Cc}|\p{Bidi_Control}/gu, escaped);
}

/** Text of others for a terminal: no control characters but line breaks and tabs. */
export function plainText(text: string): string {
  return text.replace(/(?![\n\t])\p{Cc}|\p{Bidi_Control}/gu, '\u{fffd}');
}

/** Columns below their headings, the last one as wide as it is. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map((cell) => plainText(cell).replace(/\s+/g, ' ') || '-'))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The entries of a JSON list as text, separated by commas; empty for what is no list. */
export function listed(value: JsonValue | undefined): string {
  return Array.isArray(value) ? value.map(text).join(', ') : '';
}

export function text(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Epoch milliseconds as ISO 8601 in UTC, to the second. */
export function time(value: JsonValue | undefined): string {
  return typeof value === 'number' ? new Date(value).toISOString().replace(/\.\d+Z$/, 'Z') : '';
}
