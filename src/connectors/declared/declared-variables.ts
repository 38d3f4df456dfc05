import { INVALID_ARGUMENT } from '../../errors.ts';

/** Value of a variable of the environment; `undefined` when it is not set or empty. */
export type Variables = (name: string) => string | undefined;

/** `{env:NAME}`; `${env:NAME}`, as some hosts write it, is the same thing. */
const PLACEHOLDER = /\$?\{env:([^{}]*)\}/g;
/** Placeholders and nothing else, but for the scheme of an `Authorization` and the colon of a `Basic` value. */
const PURE = /^(?:(?:Basic|Bearer|Token|ApiKey) +)?(?:\$?\{env:[^{}]*\}:?)+$/i;
const OTHER_PLACEHOLDER = /\$\{(?!env:)[^{}]*\}|\{\{[^{}]*\}\}/;
const OWN_VARIABLE = /^TENON_/i;
const SECRET_NAME =
  /auth|cookie|credential|dsn|jwt|key|passw|(?:^|[^a-z])(?:pat|pwd|sig|sid)(?:[^a-z]|$)|secret|signature|token/i;
/** Long, without blanks, letters and digits mixed: what is drawn at random, and hardly ever what is written by hand. */
const RANDOM = /^(?=.*\d)(?=.*[a-z])[\w+=~-]{16,}$/i;
const PLAIN = /^(?:.{0,7}|\p{L}+)$/u;
/** `user:password@` of an address. */
const USER_INFO = /^[a-z][\w+.-]*:\/\/([^/@\s]+)@/i;
const HIDDEN = '[redacted]';

/** Every local server is given these where they are set: a program finds its files and other programs by them. */
const INHERITED: readonly string[] = [
  ...['HOME', 'LANG', 'LC_ALL', 'LC_CTYPE', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'USER'],
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_DIR', 'SSL_CERT_FILE'],
  ...['APPDATA', 'COMSPEC', 'HOMEDRIVE', 'HOMEPATH', 'LOCALAPPDATA', 'PATHEXT', 'PROCESSOR_ARCHITECTURE'],
  ...['PROGRAMDATA', 'PROGRAMFILES', 'SYSTEMDRIVE', 'SYSTEMROOT', 'TEMP', 'TMP', 'USERNAME', 'USERPROFILE', 'WINDIR'],
];

/** Fills in variables, and remembers what is secret by that. */
export interface Resolver {
  /** `where` names the member for messages. One pass: a value is not expanded again. @throws INVALID_ARGUMENT */
  resolve(where: string, text: string): string;
  /** One more text that must appear nowhere. */
  remember(secret: string): void;
  /** The same for a value that is never shown, unless it is a plain word or short and its name tells of no secret. */
  rememberHidden(name: string, value: string): void;
  /** Values of variables, and literal values of members whose name sounds like a secret. */
  readonly secrets: ReadonlySet<string>;
}

export function createResolver(variables: Variables): Resolver {
  const secrets = new Set<string>();

  function lookUp(where: string, name: string): string {
    const shown = JSON.stringify(name.slice(0, 100)).slice(1, -1);
    if (OWN_VARIABLE.test(name)) {
      throw new INVALID_ARGUMENT(`${where} uses {env:${shown}}: the variables of Tenon itself are not given away.`);
    }
    const value = variables(name);
    if (value === undefined) {
      throw new INVALID_ARGUMENT(`${where} uses {env:${shown}}, but the variable ${shown} is not set.`);
    }
    if (!INHERITED.includes(name)) secrets.add(value);
    return value;
  }

  return {
    secrets,
    remember: (secret) => void secrets.add(secret),
    rememberHidden(name, value) {
      if (soundsSecret(name) || !PLAIN.test(value)) secrets.add(value);
    },
    resolve(where, text) {
      const resolved = text.replace(PLACEHOLDER, (_placeholder, name: string) => lookUp(where, name));
      if (resolved === text && (soundsSecret(where) || RANDOM.test(text))) {
        secrets.add(text);
        secrets.add(text.slice(text.lastIndexOf(' ') + 1));
      }
      for (const secret of userInfo(resolved)) secrets.add(secret);
      return resolved;
    },
  };
}

/** Passwords in the address that a text is, as they are written and as they are meant; with `user:` before them too. */
function userInfo(text: string): string[] {
  const found = USER_INFO.exec(text)?.[1];
  if (found === undefined) return [];
  const password = found.slice(found.indexOf(':') + 1);
  return [found, password, ...decoded(password)];
}

function decoded(text: string): string[] {
  try {
    return [decodeURIComponent(text)];
  } catch {
    return [];
  }
}

/** Whether a member of that name holds a secret, as far as a name can tell. */
function soundsSecret(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** What every local server finds in its environment. */
export function inheritedEnvironment(variables: Variables): Record<string, string> {
  return Object.fromEntries(
    INHERITED.flatMap((name): [string, string][] => {
      const value = variables(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** A configured value as it may be shown: names of variables, never a literal text. */
export function shownValue(text: string): string {
  return PURE.test(text) ? text : HIDDEN;
}

export function holdsVariable(text: string): boolean {
  return text.search(PLACEHOLDER) !== -1;
}

/** A placeholder of another host, which has no meaning here; `undefined`: there is none. */
export function foreignPlaceholder(text: string): string | undefined {
  return OTHER_PLACEHOLDER.exec(text)?.[0];
}
