const LONGEST_WARNING = 500;

/** One `Warning` field value (code 299, a note that lasts): visible ASCII in a quoted string, as RFC 9110 wants it. */
export function warningHeader(text: string): string {
  const plain = text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, LONGEST_WARNING);
  return `299 tenon "${plain.replace(/["\\]/g, '\\$&')}"`;
}
