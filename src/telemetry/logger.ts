import { dirname, resolve } from 'node:path';
import { type DestinationStream, destination, multistream, type Logger as PinoLogger, pino } from 'pino';
import { StartupError } from '../errors.ts';
import { makeFolder } from '../folder.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import type { Redactor } from './redactor.ts';

export type Logger = PinoLogger;

/** Members whose values are the platform's own words: only what cannot be a word is cut from them. */
const OWN_WORDS: ReadonlySet<string> = new Set([
  'msg',
  'action',
  'outcome',
  'principal',
  'method',
  'path',
  'req',
  'code',
]);

/** Members that never reach a line, wherever a caller puts an object that has them. */
const SECRET_MEMBERS = [
  'authorization',
  'Authorization',
  'headers',
  'credential',
  'credentials',
  'password',
  'token',
  'access_token',
  'refresh_token',
  'client_secret',
  'api_key',
  'apiKey',
  'masterKey',
];

export interface LoggerOptions {
  readonly level: string;
  readonly redactor: Redactor;
  /** Lines go there as well as to standard output. */
  readonly file?: string | undefined;
  /** Takes the lines in place of standard output. */
  readonly stream?: DestinationStream | undefined;
}

/**
 * JSON lines on standard output (and in `file`). Every value of a line passes the redactor, so that a tainted secret
 * leaves in no field and at no level; `level`, `time` and the structure of the line are never touched. Our own sentences
 * and names keep ordinary words that are somebody's credential (`Redactor.cleanContent`); all other values, which may
 * repeat what a remote side said, lose those too.
 * @throws StartupError when the file cannot be opened.
 */
export function createLogger({ level, redactor, file, stream }: LoggerOptions): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: SECRET_MEMBERS.flatMap((member) => [member, `*.${member}`]), censor: '[redacted]' },
    serializers: { err: describeError, error: describeError, cause: describeError, req: describeRequest },
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: (line: string) => redactLine(line, redactor) },
  };
  return pino(options, openStreams(stream ?? destination({ dest: 1, sync: true }), file, level));
}

function openStreams(standard: DestinationStream, file: string | undefined, level: string): DestinationStream {
  if (file === undefined) return standard;
  try {
    makeFolder(dirname(resolve(file)), 0o777);
    const kept = destination({ dest: file, sync: true, mode: 0o600 });
    return multistream([
      { stream: standard, level: level as 'info' },
      { stream: kept, level: level as 'info' },
    ]);
  } catch (error) {
    throw new StartupError(`TENON_LOG_FILE: ${file} cannot be opened for writing (${(error as Error).message})`);
  }
}

/** A line whose values are cleaned; one that cannot be read leaves nothing but that it was there. */
function redactLine(line: string, redactor: Redactor): string {
  const members = parseJson(line);
  if (!isJsonObject(members)) return `${JSON.stringify({ level: 'error', msg: '[redacted]' })}\n`;
  const shown = Object.entries(members).map(([name, value]): [string, JsonValue] => {
    if (name === 'level' || name === 'time') return [name, value];
    if (OWN_WORDS.has(name)) return [name, redactor.cleanContent(value)];
    return [redactor.cleanContent(name), cleanTexts(value, redactor)];
  });
  return `${JSON.stringify(Object.fromEntries(shown))}\n`;
}

function cleanTexts(value: JsonValue, redactor: Redactor): JsonValue {
  if (typeof value === 'string') return redactor.clean(value);
  if (Array.isArray(value)) return value.map((item) => cleanTexts(item, redactor));
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).map(([name, item]) => [
    redactor.cleanContent(name),
    cleanTexts(item, redactor),
  ]);
  return Object.fromEntries(members) as JsonObject;
}

interface ErrorLine {
  readonly type: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: string;
  readonly cause?: ErrorLine;
}

/** Type, message, stack and code of an error and of its causes; nothing else an error object may carry along. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return error;
  const code = (error as { code?: unknown }).code;
  const line: ErrorLine = {
    type: error.name,
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(typeof code === 'string' ? { code } : {}),
    ...(error.cause instanceof Error && depth < 4 ? { cause: describeError(error.cause, depth + 1) as ErrorLine } : {}),
  };
  return line;
}

function describeRequest(request: { method?: string; url?: string }): unknown {
  return { method: request.method, path: request.url?.split('?', 1)[0] };
}
