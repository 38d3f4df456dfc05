import type { ClientConfig } from '../../connectors/types.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import type { Side } from '../failures.ts';
import { tooBig } from '../tool-list.ts';
import type { ByKey, QuestionAnswer, ServerQuestion } from '../types.ts';
import { visibleSchema, visibleText } from '../visible-text.ts';
import { asksForSecret } from './secret-words.ts';

/** `client_config.elicitation`. */
export type QuestionPolicy = ClientConfig['elicitation'];

/** By what the questions of a server are answered. */
export interface QuestionRules {
  readonly policy: QuestionPolicy;
  /** Somebody is there who can be asked. */
  readonly canAsk: boolean;
  readonly side: Side;
  /** Told why, for each question that is declined unasked. */
  readonly onDeclined: (reason: string) => void;
}

/** Questions of a server: answered already, or for a person to answer. */
export interface SortedQuestions {
  readonly settled: ByKey<QuestionAnswer>;
  readonly asked: ByKey<ServerQuestion>;
}

const DECLINE: QuestionAnswer = Object.freeze({ action: 'decline' });
const MAX_MESSAGE = 4096;
const MAX_URL = 2048;
const MAX_FIELDS = 64;
/** Of texts that hold no secret. */
const DATA_FORMATS: ReadonlySet<string> = new Set(['email', 'date', 'date-time']);

/**
 * Answers what the policy answers by itself. Left for a person is what may be asked, where the policy is `ask` and
 * `canAsk`; a form that asks for a secret and an address that may not be shown never are.
 * @param requests params of `elicitation/create` (MCP, Elicitation) by key
 */
export function sortQuestions(requests: ByKey<JsonValue | undefined>, rules: QuestionRules): SortedQuestions {
  const settled = new Map<string, QuestionAnswer>();
  const asked = new Map<string, ServerQuestion>();
  for (const [key, params] of Object.entries(requests)) {
    const question = readQuestion(params, rules.side);
    const reason = typeof question === 'string' ? question : refusalOf(question, rules);
    if (reason !== undefined) {
      rules.onDeclined(reason);
      settled.set(key, DECLINE);
    } else if (typeof question === 'string') settled.set(key, DECLINE);
    else if (rules.policy === 'ask') asked.set(key, question);
    else settled.set(key, { action: 'accept', content: defaultsOf(question) });
  }
  return { settled: Object.fromEntries(settled), asked: Object.fromEntries(asked) };
}

function refusalOf(question: ServerQuestion, { policy, canAsk }: QuestionRules): string | undefined {
  if (policy === 'decline') return 'client_config.elicitation of the connector is decline';
  if (policy === 'ask' && !canAsk) return 'nobody is there who could be asked';
  if (policy === 'accept_defaults' && question.mode === 'url') return 'an address has no default to accept';
  return undefined;
}

/** A question as it may be shown: hidden characters removed, texts cut; or why it is not shown at all. */
function readQuestion(params: JsonValue | undefined, side: Side): ServerQuestion | string {
  if (!isJsonObject(params)) return 'it has no parameters';
  const message = typeof params.message === 'string' ? visibleText(side.cleanContent(params.message), MAX_MESSAGE) : '';
  if (params.mode === 'url') {
    const url = typeof params.url === 'string' ? shownAddress(params.url) : undefined;
    if (url === undefined) return 'its address is not https (nor http on the loopback interface)';
    return { mode: 'url', message, url };
  }
  if (params.mode !== undefined && params.mode !== 'form') return 'its mode is neither form nor url';
  const schema = params.requestedSchema;
  if (!isJsonObject(schema) || !isJsonObject(schema.properties)) return 'it has no requestedSchema with properties';
  const fault = tooBig(schema);
  if (fault !== undefined) return `its requestedSchema ${fault}`;
  const fields = Object.entries(schema.properties);
  if (fields.length > MAX_FIELDS) return `its form has more than ${MAX_FIELDS} fields`;
  const told = typeof params.message === 'string' && asksForSecret(params.message, { prose: true });
  for (const [name, field] of fields) {
    if (!isJsonObject(field)) return 'a field of its form is not described by an object';
    const shown = visibleText(name, 64);
    if (asksSecretly(name, field) || (told && isFreeText(field)))
      return `its form asks for a secret (field "${shown}")`;
    if (visibleText(name, name.length) !== name) return `a name of its form holds hidden characters (field "${shown}")`;
  }
  return { mode: 'form', message, schema: visibleSchema(side.cleanContent(schema)) };
}

/** What of a field a person may fill in as they like, and so give away what they are told to. */
function isFreeText(field: JsonObject): boolean {
  if (['enum', 'const', 'oneOf', 'anyOf'].some((keyword) => field[keyword] !== undefined)) return false;
  const types = field.type === undefined ? ['string'] : [field.type].flat();
  return types.includes('string') && !DATA_FORMATS.has(String(field.format));
}

function asksSecretly(name: string, field: JsonObject): boolean {
  if (field.type === 'boolean') return false;
  if ([name, field.title, field.format].some((label) => typeof label === 'string' && asksForSecret(label))) return true;
  const { description } = field;
  return typeof description === 'string' && isFreeText(field) && asksForSecret(description, { prose: true });
}

/** The address in normal form when it may be shown to a person: https, or http on the loopback interface. */
function shownAddress(text: string): string | undefined {
  if (text.length > MAX_URL || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return undefined;
  const loopback = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  return url.protocol === 'https:' || (url.protocol === 'http:' && loopback) ? url.href : undefined;
}

function defaultsOf({ schema }: ServerQuestion): JsonObject {
  const properties = isJsonObject(schema?.properties) ? schema.properties : {};
  const given = Object.entries(properties).flatMap(([name, field]) =>
    isJsonObject(field) && field.default !== undefined ? [[name, field.default] as const] : [],
  );
  return Object.fromEntries(given);
}

/**
 * The answer to one question as it goes out: an accepted form with its own fields only, anything else without content;
 * no answer is `cancel`.
 */
export function sentAnswer(question: ServerQuestion, answers: ByKey<QuestionAnswer>, key: string): QuestionAnswer {
  const answer = Object.hasOwn(answers, key) ? answers[key] : undefined;
  if (answer?.action === 'decline') return { action: 'decline' };
  if (answer?.action !== 'accept') return { action: 'cancel' };
  if (question.mode === 'url') return { action: 'accept' };
  const known = isJsonObject(question.schema?.properties) ? question.schema.properties : {};
  const content = Object.entries(answer.content ?? {}).filter(([name]) => Object.hasOwn(known, name));
  return { action: 'accept', content: Object.fromEntries(content) };
}
