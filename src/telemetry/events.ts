import type { JsonObject } from '../json.ts';

export type EventType = 'connection' | 'tools' | 'run' | 'request' | 'pin';

/** Something that happened, as `GET /events` tells it. */
export interface PlatformEvent {
  readonly type: EventType;
  /** Members in the style of the API; `time` is added where it is missing. No secret, no content of a conversation. */
  readonly data: JsonObject;
  /** Who may see it: those who see the connector, or whose run it is; both empty: administrators. */
  readonly scope: { readonly connectorId?: string; readonly owner?: string };
}

/** Takes events; never fails and never waits. */
export interface EventSink {
  publish(event: PlatformEvent): void;
}
