const MAX_LINES = 40;
const MAX_STRING = 160;

/** What the demo shows: plain lines, with colour when `colour` is set. */
export interface Screen {
  title(text: string): void;
  /** A numbered heading and what the step is about. */
  step(heading: string, about: string): void;
  command(text: string): void;
  answer(status: number, milliseconds: number, body: unknown): void;
  say(text: string): void;
}

/** Writes to `write`, one line at a time. */
export function createScreen(write: (line: string) => void, colour: boolean): Screen {
  const paint = (code: number) => (text: string) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const [bold, dim, green, cyan] = [paint(1), paint(2), paint(32), paint(36)];
  let steps = 0;
  return {
    title: (text) => write(bold(text)),
    step(heading, about) {
      steps += 1;
      write('');
      write(bold(`── ${steps}. ${heading} `.padEnd(80, '─')));
      write(about);
      write('');
    },
    command: (text) => write(cyan(text)),
    answer(status, milliseconds, body) {
      write(green(`← ${status}`) + dim(` in ${Math.round(milliseconds)} ms`));
      const lines = JSON.stringify(shortened(body), null, 2).split('\n');
      for (const line of lines.slice(0, MAX_LINES)) write(line);
      if (lines.length > MAX_LINES) write(dim(`… ${lines.length - MAX_LINES} more lines`));
    },
    say: (text) => write(text),
  };
}

function shortened(value: unknown): unknown {
  if (typeof value === 'string') return value.length > MAX_STRING ? `${value.slice(0, MAX_STRING)}…` : value;
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortened(member)]));
}
