/** Knows the secrets in use and cuts them from any text that leaves: logs, errors, traces, replies. */
export interface Redactor {
  /** Remembers secret values; values shorter than 4 characters are ignored. */
  taint(values: Iterable<string>): void;
  /** Replaces every tainted value, plain, base64 or percent-encoded, with `[redacted]`. */
  clean(text: string): string;
}
