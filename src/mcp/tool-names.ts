import { createHash } from 'node:crypto';

const OFFERABLE = /^[a-zA-Z0-9_-]{1,64}$/;
const MAX_NAME = 64;
const MAX_SLUG = 24;

const sanitise = (text: string): string => text.replace(/[^A-Za-z0-9_-]/gu, '_');

/**
 * The name a tool is offered to a model under. Always matches `^[a-zA-Z0-9_-]{1,64}$` and is never one that `isTaken`.
 *
 * The server's own name where it is legal and free; else `<server>_<tool>` with other characters replaced by `_` and
 * the server cut to 24 characters; where that is too long or taken, its head and 8 hex digits of
 * SHA-256(`server\0tool`). With `forcePrefix` it is `<server>_<tool>` from the start, and the server is cut only where
 * that is too long. The same input gives the same name.
 */
export function offeredName(request: {
  connectorName: string;
  tool: string;
  /** Config-file servers always carry their prefix. */
  forcePrefix?: boolean;
  isTaken: (name: string) => boolean;
}): string {
  const { connectorName, tool, isTaken } = request;
  if (!request.forcePrefix && OFFERABLE.test(tool) && !isTaken(tool)) return tool;
  const whole = `${sanitise(connectorName)}_${sanitise(tool)}`;
  const prefixed = `${sanitise(connectorName).slice(0, MAX_SLUG)}_${sanitise(tool)}`;
  const fitting = request.forcePrefix ? whole : prefixed;
  if (fitting.length <= MAX_NAME && !isTaken(fitting)) return fitting;
  for (let round = 0; ; round += 1) {
    const seed = round === 0 ? `${connectorName}\0${tool}` : `${connectorName}\0${tool}\0${round}`;
    const suffix = createHash('sha256').update(seed).digest('hex').slice(0, 8);
    const name = `${prefixed.slice(0, MAX_NAME - suffix.length - 1)}_${suffix}`;
    if (!isTaken(name)) return name;
  }
}

/** What the names of another connector's tools do not begin with, in lower case. */
export function prefixOf(connectorName: string): string {
  return `${sanitise(connectorName)}_`.toLowerCase();
}

/** Tools that can keep their own name first, so that none of those is given to an altered one. The order stays otherwise. */
export function keepersFirst<T>(tools: readonly T[], nameOf: (tool: T) => string): T[] {
  const keeps = (tool: T): boolean => OFFERABLE.test(nameOf(tool));
  return [...tools.filter(keeps), ...tools.filter((tool) => !keeps(tool))];
}

/** What each tool of one connector is offered as when nothing else stands beside it, in the order of the list. */
export function offeredAlone(
  connectorName: string,
  tools: readonly string[],
  { forcePrefix = false }: { forcePrefix?: boolean } = {},
): Map<string, string> {
  const names = new Map<string, string>();
  const taken = new Set<string>();
  for (const tool of keepersFirst(tools, (name) => name)) {
    const name = offeredName({ connectorName, tool, forcePrefix, isTaken: (given) => taken.has(given) });
    taken.add(name);
    names.set(tool, name);
  }
  return new Map(tools.map((tool) => [names.get(tool) ?? tool, tool]));
}

/** Why a tool is not offered under its own name. */
export function renamedBecause(tool: string, forcePrefix: boolean): string {
  if (forcePrefix) return 'the tools of a declared server carry its name';
  return OFFERABLE.test(tool)
    ? 'another tool has that name'
    : 'its own name is not one that models take: 1 to 64 letters, digits, _ and -';
}

/** The tool of that name; failing that, the one offered under it alone or with its prefix. */
export function toolNamed(
  connectorName: string,
  list: { readonly tools: readonly { readonly name: string }[] },
  given: string,
  options: { forcePrefix?: boolean } = {},
): string | undefined {
  const names = list.tools.map(({ name }) => name);
  if (names.includes(given)) return given;
  const prefixed = (tool: string): string =>
    offeredName({ connectorName, tool, forcePrefix: true, isTaken: () => false });
  return offeredAlone(connectorName, names, options).get(given) ?? names.find((tool) => prefixed(tool) === given);
}
