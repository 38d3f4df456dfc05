export interface MasterKey {
  /** First 16 hex digits of the SHA-256 of the key: says which key sealed a value without showing it. */
  readonly id: string;
  readonly key: Buffer;
}

/** What a sealed value is bound to: opening it with another owner or other origins fails. */
export interface SealContext {
  /** `connector/<id>`, or `model/<id>` for an inline connector. */
  readonly owner: string;
  /** Scheme, host and port of every address the credential may be sent to; order does not matter. */
  readonly origins: readonly string[];
}

export interface Vault {
  /** AES-256-GCM envelope: a random data key per call, wrapped by the master key; `context` is associated data. */
  seal(values: Readonly<Record<string, string>>, context: SealContext): string;
  /** @throws Error with no secret in it when the key, the owner, an origin or the text is not the one sealed. */
  open(sealed: string, context: SealContext): Record<string, string>;
}
