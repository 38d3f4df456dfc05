/** One server-sent event, and the comments between. */
export interface SentEvent {
  readonly type: string;
  readonly id: string | undefined;
  readonly data: Record<string, unknown>;
}

export interface EventReader {
  readonly status: number;
  readonly headers: Headers;
  /** Everything that came so far, as it came. */
  text(): string;
  /** Events so far. */
  readonly events: SentEvent[];
  /** Resolves with the first event that fits, one that came already or a later one. */
  seen(fits: (event: SentEvent) => boolean): Promise<SentEvent>;
  /** Resolves when the server has ended the stream. */
  readonly ended: Promise<void>;
  close(): void;
}

/** Opens a stream of events and reads it until it is closed. */
export async function readEvents(url: string, headers: Record<string, string> = {}): Promise<EventReader> {
  const stop = new AbortController();
  const response = await fetch(url, { headers, signal: stop.signal });
  const events: SentEvent[] = [];
  const waiting = new Set<() => void>();
  let text = '';
  let taken = 0;

  function take(): void {
    for (let end = text.indexOf('\n\n', taken); end >= 0; end = text.indexOf('\n\n', taken)) {
      const lines = text.slice(taken, end).split('\n');
      taken = end + 2;
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field('data');
      if (data === undefined) continue;
      events.push({ type: field('event') ?? 'message', id: field('id'), data: JSON.parse(data) });
    }
    for (const wake of [...waiting]) wake();
  }

  const ended = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      take();
    }
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  ended.catch(() => undefined);

  return {
    status: response.status,
    headers: response.headers,
    text: () => text,
    events,
    seen: (fits) =>
      new Promise((resolve) => {
        const look = (): void => {
          const event = events.find(fits);
          if (event === undefined) return;
          waiting.delete(look);
          resolve(event);
        };
        waiting.add(look);
        look();
      }),
    ended,
    close: () => stop.abort(),
  };
}
