import type { Writable } from 'node:stream';

/** What is to be written to one process, in turn and no faster than it is read. */
export interface MessageQueue {
  /**
   * Puts one line in the queue. `onWritten` is called when the first octet of it is given away.
   * @returns takes it back; `false` when it is too late
   */
  put(line: string, onWritten?: () => void): () => boolean;
  /** Nothing is written any more. */
  stop(): void;
}

interface Waiting {
  readonly line: string;
  readonly onWritten: (() => void) | undefined;
}

/** A queue before the standard input of a process. */
export function createMessageQueue(stdin: Writable): MessageQueue {
  const waiting = new Set<Waiting>();
  let blocked = false;

  function proceed(): void {
    for (const next of waiting) {
      if (blocked) return;
      waiting.delete(next);
      next.onWritten?.();
      if (stdin.write(`${next.line}\n`)) continue;
      blocked = true;
      stdin.once('drain', () => {
        blocked = false;
        proceed();
      });
    }
  }

  return {
    put(line, onWritten) {
      const entry = { line, onWritten };
      waiting.add(entry);
      proceed();
      return () => waiting.delete(entry);
    },
    stop() {
      blocked = true;
      waiting.clear();
    },
  };
}
