/** The first `limit` UTF-16 units of a text, with a visible mark when something is missing. */
export function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const splits = /[\ud800-\udbff]/.test(text.charAt(limit - 1));
  const kept = text.slice(0, splits ? limit - 1 : limit);
  return `${kept}\n[cut: ${kept.length} of ${text.length} characters]`;
}
