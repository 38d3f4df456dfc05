import type { LocalServer } from '../../connectors/types.ts';
import type { CauseCode, UpstreamError, UpstreamFailure } from '../../errors.ts';
import { exceedsDepth, isJsonObject, type JsonObject, MAX_REMOTE_DEPTH, parseJson } from '../../json.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { amended, failure, passedOn, type Side } from '../failures.ts';
import { MAX_OTHERS } from '../http/flood-guard.ts';
import { MAX_ANSWER_BYTES } from '../http/http-answer.ts';
import { type Channel, type ChannelListener, createExchanges, EXCHANGE_HEADER } from '../session/channel.ts';
import {
  delivered,
  type Exchange,
  isReplyTo,
  requestBody,
  saysListChanged,
  settle,
  type WireFacts,
} from '../session/exchange.ts';
import { createLineReader } from './line-reader.ts';
import { type LocalProcess, type LocalProcesses, within } from './local-process.ts';
import { createMessageQueue, type MessageQueue } from './message-queue.ts';
import { exitText, spawnFailure } from './process-failures.ts';
import { createStderrRing } from './stderr-ring.ts';
import { createTrafficGuard } from './traffic-guard.ts';

export interface ProcessChannelDeps extends ChannelListener {
  readonly processes: LocalProcesses;
  /** Whose process it is. */
  readonly connectorId: string;
  readonly server: LocalServer;
  readonly side: Side;
  readonly log: Logger;
  readonly now: () => number;
}

/** One request of ours that is not answered yet. */
interface PendingRequest {
  readonly message: JsonObject;
  readonly exchange: Exchange | undefined;
  /** Whether any of it was given to the server. */
  written: boolean;
  resolve(): void;
  reject(error: unknown): void;
  /** Takes it out of the queue; `false` when it was written. */
  withdraw?: () => boolean;
}

/** Makes the failure of one request. */
type FailureOf = (rest: Pick<UpstreamFailure, 'delivered'>) => UpstreamError;

const MAX_MIB = MAX_ANSWER_BYTES / (1024 * 1024);
/** Answers to requests of the server that it has not read, in characters. */
const MAX_UNREAD = 4 * 1024 * 1024;
/** How long what a process wrote last may still be on its way after its end. */
const LAST_WORDS_MS = 250;
/** How long a process may outlive its pipes: how it ends says more than a broken pipe. */
const EXIT_MS = 500;
const NOT_JSON = 'the server writes text that is not JSON to its standard output';
const NO_MESSAGE = 'the server writes JSON that is no message of the protocol to its standard output';

/**
 * A channel to a child process: newline-delimited JSON-RPC over its standard input and output (MCP, stdio). As over HTTP,
 * `send` of a request settles with its reply, and a failure of the request is its rejection. Nothing is started before
 * the SDK asks.
 */
export function createProcessChannel(deps: ProcessChannelDeps): Channel & { stderr(): readonly string[] } {
  const { side, log } = deps;
  const facts: WireFacts = { requested: new Set(), deviations: new Set() };
  const exchanges = createExchanges();
  const pending = new Map<string, PendingRequest>();
  const stderr = createStderrRing(side.clean);
  let starting: Promise<LocalProcess> | undefined;
  let queue: MessageQueue | undefined;
  let unread = 0;
  let negotiated = false;
  let over: FailureOf | undefined;
  /** It was told to end, so that its end is no news. */
  let told = false;
  let closed: Promise<void> | undefined;

  const traffic = createTrafficGuard({
    now: deps.now,
    onFlood: () => breakOff('invalid_response', 'floods its standard output with what nobody asked for'),
  });

  /** Fails every request in flight and tells the owner, once. */
  function finish(failureOf: FailureOf): void {
    if (over !== undefined) return;
    over = failureOf;
    queue?.stop();
    for (const request of pending.values())
      request.reject(failureOf({ delivered: request.written ? 'unknown' : 'no' }));
    pending.clear();
    if (!told && negotiated) deps.onGone(failureOf({ delivered: 'no' }));
  }

  /** Ends a process that cannot be spoken to. */
  function breakOff(code: CauseCode, what: string): void {
    if (over !== undefined) return;
    finish((rest) => failure(side, code, what, rest));
    void starting?.then(({ stdout }) => stdout.destroy());
    deps.onClosing(close());
  }

  function close(): Promise<void> {
    told = true;
    closed ??= (async () => {
      finish((rest) => failure(side, 'stream_broken', 'was ended by this server before it answered', rest));
      const child = await starting?.catch(() => undefined);
      await child?.end();
    })();
    return closed;
  }

  function noise(what: string, beginning: string, bytes: number): void {
    traffic.admit('noise', bytes);
    if (facts.deviations.has(what)) return;
    facts.deviations.add(what);
    log.warn(
      { connectorId: deps.connectorId },
      `MCP ${side.destination}: ${what}; this is logged once: "${passedOn(side, beginning)}"`,
    );
  }

  function takeLine(text: string, bytes: number): void {
    const value = parseJson(text);
    const messages = (Array.isArray(value) ? value : [value]).filter(isJsonObject);
    if (messages.length === 0) noise(value === undefined ? NOT_JSON : NO_MESSAGE, text, bytes);
    for (const message of messages) {
      if (over !== undefined) return;
      if (typeof message.method === 'string') takeOther(message, bytes);
      else takeReply(message, text, bytes);
    }
  }

  function takeReply(message: JsonObject, text: string, bytes: number): void {
    if (message.result === undefined && message.error === undefined && message.jsonrpc !== '2.0') {
      noise(NO_MESSAGE, text, bytes);
      return;
    }
    const request = pendingFor(message);
    // The reply to a request that was given up.
    if (request === undefined) return;
    deps.onHeard();
    pending.delete(String(request.message.id));
    // The SDK hands a notification on one turn later, and forgets whom to tell of progress as soon as the reply is there.
    queueMicrotask(() => answer(request, message, bytes));
  }

  function answer(
    { message: asked, exchange, resolve, reject }: PendingRequest,
    reply: JsonObject,
    bytes: number,
  ): void {
    try {
      if (exceedsDepth(reply, MAX_REMOTE_DEPTH)) {
        const where = `in answer to ${String(asked.method)}`;
        throw failure(side, 'invalid_response', `sent JSON nested deeper than ${MAX_REMOTE_DEPTH} levels ${where}`);
      }
      if (exchange) exchange.bytes = bytes;
      transport.onmessage?.(settle(side, asked, reply, exchange, facts) as never);
      resolve();
    } catch (error) {
      reject(error);
    }
  }

  /** An error without an id is about the only request there is. */
  function pendingFor(reply: JsonObject): PendingRequest | undefined {
    const { id } = reply;
    const [only, ...others] = pending.values();
    const named = typeof id === 'string' || typeof id === 'number' ? pending.get(String(id)) : undefined;
    const request = named ?? (others.length === 0 ? only : undefined);
    return request !== undefined && isReplyTo(request.message, reply) ? request : undefined;
  }

  function takeOther(message: JsonObject, bytes: number): void {
    const asks = message.id !== undefined;
    const progress = message.method === 'notifications/progress';
    if (progress && isJsonObject(message.params) && pending.has(String(message.params.progressToken))) deps.onHeard();
    const admitted = traffic.admit(asks ? 'request' : progress ? 'progress' : 'notification', bytes);
    if (saysListChanged(message)) deps.onListChanged();
    if (over !== undefined || exceedsDepth(message, MAX_REMOTE_DEPTH)) return;
    if (admitted) transport.onmessage?.(delivered(message) as never);
    else if (asks) breakOff('invalid_response', `made more than ${MAX_OTHERS} requests of its own within a minute`);
  }

  function request(message: JsonObject, text: string, exchange: Exchange | undefined): Promise<void> {
    const method = String(message.method);
    facts.requested.add(method);
    if (method === 'initialize') forgetProbes();
    const line = requestBody(message, text, exchange);
    return new Promise((resolve, reject) => {
      const entry: PendingRequest = { message, exchange, written: false, resolve, reject };
      pending.set(String(message.id), entry);
      // Between two members of the arguments a line end is legal JSON, and would end the message.
      const withdraw = queue?.put(exchange?.argumentsText === undefined ? line : line.replace(/[\r\n]/g, ' '), () => {
        entry.written = true;
      });
      if (withdraw !== undefined) entry.withdraw = withdraw;
    });
  }

  /** The SDK does not take back the probe of the era that it no longer waits for. */
  function forgetProbes(): void {
    for (const [id, { message, resolve }] of pending) {
      if (message.method !== 'server/discover') continue;
      pending.delete(id);
      resolve();
    }
  }

  function oneWay(message: JsonObject, text: string): void {
    if (message.method === 'notifications/cancelled') {
      const id = String(isJsonObject(message.params) ? message.params.requestId : undefined);
      const cancelled = pending.get(id);
      pending.delete(id);
      cancelled?.resolve();
      if (cancelled === undefined || cancelled.withdraw?.()) return;
    }
    unread += text.length;
    queue?.put(text, () => {
      unread -= text.length;
    });
    if (unread > MAX_UNREAD) breakOff('invalid_response', 'makes requests of its own and does not read the answers');
  }

  function listen(child: LocalProcess): void {
    const { stdin, stdout } = child;
    queue = createMessageQueue(stdin);
    const reader = createLineReader({
      maxBytes: MAX_ANSWER_BYTES,
      onLine: takeLine,
      onNoise: (beginning, bytes) => noise(NOT_JSON, beginning, bytes),
      onTooLong: () => breakOff('invalid_response', `sent a message larger than ${MAX_MIB} MiB on one line`),
    });
    const drained = Promise.all(
      [stdout, child.stderr].map((pipe) => new Promise((resolve) => pipe.once('close', resolve))),
    );
    stdout.on('data', (chunk: Buffer) => over === undefined && reader.push(chunk));
    stdout.once('end', () => {
      if (over === undefined) reader.end();
      void pipeEnded(child, 'closed its standard output');
    });
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    stdin.once('error', () => void pipeEnded(child, 'does not read its standard input any more'));
    void child.exited.then(async (exit) => {
      await within(drained, LAST_WORDS_MS);
      const what = exitText(side, exit, { negotiated, stderr: stderr.lines() });
      finish((rest) => failure(side, 'process_exited', what, rest));
      deps.onClosing(close());
    });
  }

  async function pipeEnded(child: LocalProcess, what: string): Promise<void> {
    if (!(await within(child.exited, EXIT_MS))) breakOff('stream_broken', what);
  }

  const transport: Channel['transport'] & { readonly pid: undefined; readonly stderr: undefined } = {
    // By these two members the SDK knows a child process: silence to its probe is an answer then.
    pid: undefined,
    stderr: undefined,
    async start() {
      try {
        if (over !== undefined) throw over({ delivered: 'no' });
        starting = deps.processes.start(deps.connectorId, deps.server);
        listen(await starting);
      } catch (error) {
        const failed = await spawnFailure(side, deps.server, error);
        finish((rest) => amended(failed, rest));
        throw failed;
      }
    },
    async send(sent, options) {
      const message = sent as unknown as JsonObject;
      const text = JSON.stringify(message);
      const isRequest = typeof message.method === 'string' && message.id !== undefined;
      if (!isRequest) return over === undefined ? oneWay(message, text) : undefined;
      if (over !== undefined) throw over({ delivered: 'no' });
      return request(message, text, exchanges.of(options?.headers?.[EXCHANGE_HEADER]));
    },
    // The SDK is told of no other end: once it knows, it answers every request itself, with less than the cause.
    async close() {
      deps.onClosing(close());
      setImmediate(() => transport.onclose?.());
    },
    setProtocolVersion() {
      negotiated = true;
    },
  };

  return {
    transport,
    facts,
    run: exchanges.run,
    terminate: async () => undefined,
    close,
    stderr: stderr.lines,
  };
}
