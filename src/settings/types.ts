import type { JsonObject } from '../json.ts';

/** Keys are full names: `plugins.ml_commons.mcp_connector_enabled`. Values are texts, as the API stores them. */
export interface Settings {
  /** Value in force: transient over persistent over environment over default. Synchronous, from a cache. */
  text(name: string): string | undefined;
  flag(name: string): boolean;
  /** A list setting; `undefined` when it is not set at all, which differs from `[]`. */
  list(name: string): readonly string[] | undefined;
  /** Applies `PUT /_cluster/settings` (flat or nested, `null` resets) and returns its answer, nested unless `flat`. */
  update(body: JsonObject, options?: { flat?: boolean }): Promise<JsonObject>;
  /** `GET /_cluster/settings`. */
  describe(options: { includeDefaults: boolean; flat: boolean }): JsonObject;
  /** Called after each change with the names that changed. */
  onChange(listener: (names: readonly string[]) => void): void;
}
