/** Changes of one letter, or of the order of two, that are taken for a slip. */
const MOST_CHANGES = 2;
const LONGEST = 40;

/** The name that was meant by one that is not known; `undefined` when none is near. Case is no difference. */
export function likeliest(written: string, known: readonly string[]): string | undefined {
  if (written.length > LONGEST) return undefined;
  const ranked = known.map((name) => ({ name, changes: changesBetween(written.toLowerCase(), name.toLowerCase()) }));
  const [nearest] = ranked.sort((a, b) => a.changes - b.changes);
  if (nearest === undefined) return undefined;
  const most = Math.min(MOST_CHANGES, Math.floor(nearest.name.length / 3));
  return nearest.changes <= most ? nearest.name : undefined;
}

/** Least number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function changesBetween(a: string, b: string): number {
  let beforeLast: readonly number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swaps = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = swaps ? (beforeLast[j - 2] ?? 0) + 1 : replaced;
      row.push(Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replaced, swapped));
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
