/** The series of a scrape in the text format of Prometheus: name with labels as written, to value. */
export function seriesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

/** The value of one series; labels in the order in which they are written. */
export function sample(text: string, name: string, labels: Record<string, string> = {}): number | undefined {
  const inside = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return seriesOf(text).get(inside.length === 0 ? name : `${name}{${inside.join(',')}}`);
}
