const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const TIME = '(?<hour>[01]\\d|2[0-3]):(?<minute>[0-5]\\d):(?<second>[0-5]\\d|60)';
/** The three forms of an HTTP-date (RFC 9110 section 5.6.7): IMF-fixdate, RFC 850, asctime. */
const DATES = [
  new RegExp(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\\d{4}) ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{2,5}day, (?<day>\\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\\d{2}) ${TIME} GMT$`),
  new RegExp(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>\\d{2}| \\d) ${TIME} (?<year>\\d{4})$`),
];

/**
 * Reads a `Retry-After` value (RFC 9110 section 10.2.3): whole seconds or an HTTP-date.
 * @param now epoch milliseconds the date form is measured from
 * @returns milliseconds to wait; `undefined` for an absent, malformed, negative or past value
 */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, Number.MAX_SAFE_INTEGER);
  const date = parseDate(text, now);
  return date === undefined || date < now ? undefined : date - now;
}

function parseDate(text: string, now: number): number | undefined {
  for (const form of DATES) {
    const { year, month, day, hour, minute, second } = form.exec(text)?.groups ?? {};
    if (year === undefined || month === undefined) continue;
    const fullYear = year.length === 4 ? Number(year) : nearestYear(Number(year), now);
    const date = new Date(Date.UTC(fullYear, MONTHS.indexOf(month), Number(day)));
    if (date.getUTCDate() !== Number(day) || MONTHS[date.getUTCMonth()] !== month) return undefined;
    return date.getTime() + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000;
  }
  return undefined;
}

/** A two-digit year more than 50 years ahead is the past year with the same digits. */
function nearestYear(digits: number, now: number): number {
  const current = new Date(now).getUTCFullYear();
  const year = current - (current % 100) + digits;
  return year > current + 50 ? year - 100 : year;
}
