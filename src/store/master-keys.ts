export interface MasterKeys {
  /** Sealed probe text of that key; `undefined` when the key was never used with this database. */
  probe(keyId: string): Promise<string | undefined>;
  /** Whether the database holds anything sealed under some key. */
  any(): Promise<boolean>;
  record(keyId: string, probe: string): Promise<void>;
}
