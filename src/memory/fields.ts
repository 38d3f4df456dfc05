import { INVALID_ARGUMENT, PARSE_FAILED } from '../errors.ts';
import { exceedsDepth, isJsonObject, type JsonObject, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';
import type { MemoryRow, MessageFields, MessageRow, Page } from '../store/memory.ts';

const LARGEST_PAGE = 10_000;

/** Page controls of the lists of memory, as their query gives them. */
export interface PageRequest {
  readonly max_results?: string;
  readonly next_token?: string;
}

/** @throws INVALID_ARGUMENT naming the parameter */
export function pageOf(request: PageRequest): Page {
  return {
    limit: wholeNumber('max_results', request.max_results ?? '10', 1, LARGEST_PAGE),
    offset: wholeNumber('next_token', request.next_token ?? '0', 0, Number.MAX_SAFE_INTEGER),
  };
}

/** The offset of the page after this one; absent when this one was not full. */
export function nextToken(page: Page, found: number): { next_token?: number } {
  return found === page.limit ? { next_token: page.offset + page.limit } : {};
}

function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new INVALID_ARGUMENT(`${name} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`);
}

/** Text member of a memory body; absent and null are the same. @throws PARSE_FAILED */
export function textOf(body: JsonObject, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw new PARSE_FAILED(`${name} must be a string`);
}

/** `additional_info` as the JSON text that is stored. @throws PARSE_FAILED */
export function additionalInfoOf(body: JsonObject): string | undefined {
  const value = body.additional_info ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value === 'string' || isJsonObject(value)) return JSON.stringify(value);
  throw new PARSE_FAILED('additional_info must be an object');
}

/** What `POST /memory/{id}/messages` stores. @throws PARSE_FAILED, INVALID_ARGUMENT when nothing is in it */
export function messageFields(body: JsonObject): MessageFields {
  const input = textOf(body, 'input');
  const promptTemplate = textOf(body, 'prompt_template');
  const response = textOf(body, 'response');
  const origin = textOf(body, 'origin');
  const additionalInfo = additionalInfoOf(body);
  const said = [input, promptTemplate, response, origin].some((text) => text !== undefined && text !== '');
  if (!said && (additionalInfo === undefined || additionalInfo === '{}' || additionalInfo === '""')) {
    throw new INVALID_ARGUMENT(
      'At least one of the following parameters must be non-empty: input, prompt_template, response, origin, additional_info',
    );
  }
  const parentMessageId = textOf(body, 'parent_message_id');
  const traceNumber = body.trace_number ?? undefined;
  if (traceNumber !== undefined && !Number.isSafeInteger(traceNumber)) {
    throw new PARSE_FAILED('trace_number must be a whole number');
  }
  return {
    ...(input === undefined ? {} : { input }),
    ...(promptTemplate === undefined ? {} : { promptTemplate }),
    ...(response === undefined ? {} : { response }),
    ...(origin === undefined ? {} : { origin }),
    ...(additionalInfo === undefined ? {} : { additionalInfo }),
    ...(parentMessageId === undefined ? {} : { parentMessageId }),
    ...(traceNumber === undefined ? {} : { traceNumber: Number(traceNumber) }),
  };
}

/** A memory as the API shows it; its times are ISO-8601 instants. */
export function memoryDocument(row: MemoryRow): JsonObject {
  return {
    memory_id: row.id,
    create_time: new Date(row.createTime).toISOString(),
    updated_time: new Date(row.updatedTime).toISOString(),
    ...(row.name === undefined ? {} : { name: row.name }),
    ...(row.owner === undefined ? {} : { user: row.owner.replace(/^user:/, '') }),
    ...additionalInfo(row.additionalInfo),
  };
}

/** A message or a trace as the API shows it. */
export function messageDocument(row: MessageRow): JsonObject {
  return {
    memory_id: row.memoryId,
    message_id: row.id,
    create_time: new Date(row.createTime).toISOString(),
    ...(row.updatedTime === undefined ? {} : { updated_time: new Date(row.updatedTime).toISOString() }),
    ...(row.input === undefined ? {} : { input: row.input }),
    ...(row.promptTemplate === undefined ? {} : { prompt_template: row.promptTemplate }),
    ...(row.response === undefined ? {} : { response: row.response }),
    ...(row.origin === undefined ? {} : { origin: row.origin }),
    ...additionalInfo(row.additionalInfo),
    ...(row.parentMessageId === undefined ? {} : { parent_message_id: row.parentMessageId }),
    ...(row.traceNumber === undefined ? {} : { trace_number: row.traceNumber }),
  };
}

function additionalInfo(text: string | undefined): JsonObject {
  const value = text === undefined ? undefined : parseJson(text);
  if (value === undefined) return {};
  return { additional_info: exceedsDepth(value, MAX_REMOTE_DEPTH) ? (text ?? '') : value };
}
