export type SettingScope = 'persistent' | 'transient';

export interface SettingStore {
  all(): Promise<{ scope: SettingScope; name: string; value: string }[]>;
  /** `null` removes. One transaction for all changes. */
  apply(changes: readonly { scope: SettingScope; name: string; value: string | null }[]): Promise<void>;
  /** Transient settings end with the server's process on SQLite. */
  clearTransient(): Promise<void>;
}
