import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { QuestionAnswer, ServerQuestion } from '../mcp/types.ts';
import { type RequestState, type RunRequestRow, SERVER_STOPPED } from '../store/run-requests.ts';
import { checkFormContent } from './form-content.ts';
import type { RequestStep } from './steps.ts';

export type RequestKind = RequestStep['requestKind'];
export type RequestAction = 'approve' | 'refuse' | QuestionAnswer['action'];

/** What a person is asked, with what they need to decide. */
export interface RequestFacts {
  readonly requestId: string;
  readonly kind: RequestKind;
  readonly runId: string;
  readonly taskId: string;
  readonly agentId: string;
  /** As `ownerId` says. */
  readonly owner: string;
  /** The server's own name of the tool, where it has a server. */
  readonly tool?: string;
  readonly connectorId?: string;
  readonly offeredName: string;
  /** As the model wrote them. */
  readonly arguments: string;
  readonly question?: ServerQuestion;
}

export interface GivenAnswer {
  readonly action: RequestAction;
  readonly content?: JsonObject;
  /** Nobody answered in time. */
  readonly expired?: true;
}

const ACTIONS: Readonly<Record<RequestKind, readonly RequestAction[]>> = Object.freeze({
  approval: ['approve', 'refuse'],
  elicitation: ['accept', 'decline', 'cancel'],
});
/** What an answer that never came means. */
const SILENCE: Readonly<Record<RequestKind, RequestAction>> = Object.freeze({
  approval: 'refuse',
  elicitation: 'cancel',
});

/** The members of a request that do not change, as they are stored. */
export function requestBody(facts: RequestFacts): JsonObject {
  const { tool, connectorId, question } = facts;
  return {
    agent_id: facts.agentId,
    offered_name: facts.offeredName,
    ...(tool === undefined ? {} : { tool }),
    ...(connectorId === undefined ? {} : { connector_id: connectorId }),
    arguments: facts.arguments,
    ...(question === undefined ? {} : { question: question as unknown as JsonObject }),
  };
}

/** A request as the API shows it. What a person filled into a form is not shown. */
export function requestDocument(row: RunRequestRow, now: number): JsonObject {
  const state = stateAt(row, now);
  const answer: JsonObject = {
    ...(row.answer?.action === undefined ? {} : { action: row.answer.action }),
    ...(row.answeredBy === undefined ? {} : { answered_by: row.answeredBy }),
    ...(row.answerTime === undefined ? {} : { answer_time: row.answerTime }),
  };
  return {
    request_id: row.id,
    task_id: row.taskId,
    kind: row.kind,
    state,
    ...row.body,
    ...(state === 'open' ? { actions: [...ACTIONS[kindOf(row)]] } : {}),
    create_time: row.createTime,
    expires_time: row.expiresTime,
    ...(state === 'answered' ? { answer } : {}),
    ...(state === 'expired' ? reasonOf(row) : {}),
  };
}

/** An open request whose time is over counts as expired, whoever has written that down. */
export function stateAt(row: RunRequestRow, now: number): RequestState {
  return row.state === 'open' && row.expiresTime <= now ? 'expired' : row.state;
}

/** Reads the body of an answer. @throws INVALID_ARGUMENT naming what fits, or the field */
export function readAnswer(row: RunRequestRow, body: JsonObject): GivenAnswer {
  const kind = kindOf(row);
  const action = ACTIONS[kind].find((name) => name === body.action);
  if (action === undefined) {
    throw new INVALID_ARGUMENT(`action must be one of ${ACTIONS[kind].join(', ')}: the request is of kind ${kind}`);
  }
  const content = body.content ?? undefined;
  const question = isJsonObject(row.body.question) ? row.body.question : {};
  if (action !== 'accept' || question.mode === 'url') {
    if (content === undefined) return { action };
    throw new INVALID_ARGUMENT('content is only given where a form is accepted: leave it out');
  }
  const filled: JsonValue = content ?? {};
  if (!isJsonObject(filled)) throw new INVALID_ARGUMENT('content must be an object with the fields of the form');
  checkFormContent(filled, isJsonObject(question.schema) ? question.schema : {});
  return { action, content: filled };
}

/** What the answer of a request that is open no more comes to. */
export function givenAnswer(row: RunRequestRow): GivenAnswer {
  const kind = kindOf(row);
  const action = ACTIONS[kind].find((name) => name === row.answer?.action);
  if (row.state !== 'answered' || action === undefined) return { action: SILENCE[kind], expired: true };
  const content = row.answer?.content;
  return { action, ...(isJsonObject(content) ? { content } : {}) };
}

/** Why an answer comes too late. */
export function lateText(row: RunRequestRow): string {
  if (row.state === 'answered') {
    const time = new Date(row.answerTime ?? 0).toISOString();
    return `Request ${row.id} was answered already: ${String(row.answer?.action)}, by ${row.answeredBy}, at ${time}`;
  }
  const { reason = 'Nobody answered it in time' } = reasonOf(row);
  return `Request ${row.id} is closed. ${reason}. It counts as ${SILENCE[kindOf(row)]}`;
}

const LOST = 'The server stopped while the call that asked was under way, and the call ended with it';

/** Why a request was closed before its time, as people read it. */
function reasonOf({ answer }: RunRequestRow): { reason?: string } {
  const { reason } = answer ?? {};
  if (reason === SERVER_STOPPED) return { reason: LOST };
  return typeof reason === 'string' ? { reason } : {};
}

function kindOf({ kind }: RunRequestRow): RequestKind {
  return kind === 'approval' ? 'approval' : 'elicitation';
}
