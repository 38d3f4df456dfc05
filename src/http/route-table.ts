/** Which methods each path answers, for the 405 text: the router itself only knows method and path together. */
export interface RouteTable {
  add(method: string | readonly string[], pattern: string): void;
  /** Methods of the patterns that match this request target, sorted; empty when the path is unknown. */
  methodsOf(url: string): readonly string[];
}

export function createRouteTable(): RouteTable {
  const patterns = new Map<string, { segments: readonly string[]; methods: Set<string> }>();
  return {
    add(method, pattern) {
      const entry = patterns.get(pattern) ?? { segments: segmentsOf(pattern), methods: new Set<string>() };
      for (const name of [method].flat()) entry.methods.add(name);
      patterns.set(pattern, entry);
    },
    methodsOf(url) {
      const wanted = segmentsOf(url.split('?', 1)[0] ?? '');
      const matching = [...patterns.values()].filter(({ segments }) => matches(segments, wanted));
      return [...new Set(matching.flatMap(({ methods }) => [...methods]))].sort();
    },
  };
}

function segmentsOf(path: string): string[] {
  return path.replace(/\/$/, '').split('/');
}

function matches(pattern: readonly string[], wanted: readonly string[]): boolean {
  if (pattern.length !== wanted.length) return false;
  return pattern.every((segment, at) => (segment.startsWith(':') ? wanted[at] !== '' : segment === wanted[at]));
}
