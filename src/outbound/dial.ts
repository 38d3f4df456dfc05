import { lookup as systemLookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { CauseCode } from '../errors.ts';
import type { Verdict } from './address-guard.ts';
import { nodeCode, type Trouble, TroubleError } from './failure.ts';

/** All addresses of a name. Called once per connection: what it answers is checked and then connected to. */
export type Lookup = (hostname: string) => Promise<readonly { readonly address: string }[]>;

export interface DialTarget {
  /** Name or address, without brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly tls: boolean;
  readonly skipTlsVerification: boolean;
  /** For lookup, TCP and TLS together. */
  readonly timeoutMs: number;
  readonly judge: (address: string) => Verdict;
  readonly lookup: Lookup;
  readonly signal: AbortSignal;
}

const MAX_ADDRESSES = 8;
/** Pause before the next address is tried beside the one that has not answered yet (RFC 8305 section 5). */
const STAGGER_MS = 250;

export const lookupAll: Lookup = (hostname) => systemLookup(hostname, { all: true, verbatim: true });

/**
 * Opens one connection: resolves the name, judges every address, connects to the allowed ones in turn and keeps the
 * first that answers. The name is not resolved again.
 * @throws TroubleError whose trouble was surely not delivered
 */
export async function dial(target: DialTarget): Promise<Socket> {
  const giveUp = new AbortController();
  const onAbort = () => giveUp.abort(new TroubleError(trouble('stream_broken', 'was no longer wanted.')));
  target.signal.addEventListener('abort', onAbort, { once: true });
  const seconds = target.timeoutMs / 1000;
  const late = new TroubleError(trouble('connect_timeout', `could not be connected to within ${seconds} s.`));
  const timer = setTimeout(() => giveUp.abort(late), target.timeoutMs);
  try {
    if (target.signal.aborted) onAbort();
    const addresses = await abortable(allowedAddresses(target), giveUp.signal);
    const socket = await race(addresses, target.port, giveUp.signal);
    return target.tls ? await secure(socket, target, giveUp.signal) : socket;
  } finally {
    clearTimeout(timer);
    target.signal.removeEventListener('abort', onAbort);
  }
}

async function allowedAddresses({ hostname, lookup, judge }: DialTarget): Promise<string[]> {
  const found = isIP(hostname) ? [{ address: hostname }] : await resolve(hostname, lookup);
  const verdicts = found.map(({ address }) => ({ address, verdict: judge(address) }));
  const allowed = verdicts.filter(({ verdict }) => verdict.allowed).map(({ address }) => address);
  const refusal = verdicts.find(({ verdict }) => !verdict.allowed)?.verdict;
  if (allowed.length === 0 && refusal?.allowed === false) {
    throw new TroubleError({
      ...trouble('address_refused', `may not be contacted. ${refusal.reason}`),
      retryable: false,
      statusCode: 400,
    });
  }
  return [...new Set(allowed)].slice(0, MAX_ADDRESSES);
}

async function resolve(hostname: string, lookup: Lookup): Promise<readonly { readonly address: string }[]> {
  try {
    const found = await lookup(hostname);
    if (found.length > 0) return found;
  } catch (error) {
    throw new TroubleError({ ...trouble('dns_failed', `has a name that cannot be resolved (${nodeCode(error)}).`) });
  }
  throw new TroubleError(trouble('dns_failed', 'has a name with no address.'));
}

/** The first of the addresses that accepts a connection; the other attempts are destroyed. */
function race(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((done, fail) => {
    const open = new Set<Socket>();
    let next = 0;
    let stagger: NodeJS.Timeout | undefined;
    const finish = (winner: Socket | undefined, error?: unknown) => {
      clearTimeout(stagger);
      signal.removeEventListener('abort', onAbort);
      for (const socket of open) if (socket !== winner) socket.destroy();
      if (winner === undefined) fail(error);
      else done(winner);
    };
    const onAbort = () => finish(undefined, signal.reason);
    const attempt = () => {
      clearTimeout(stagger);
      const address = addresses[next++];
      if (address === undefined) return;
      const socket = connectTcp({ host: address, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 });
      open.add(socket);
      socket.once('connect', () => {
        socket.off('error', onError);
        finish(socket);
      });
      const onError = (error: Error) => {
        open.delete(socket);
        if (next < addresses.length) attempt();
        else if (open.size === 0) finish(undefined, new TroubleError(unreachable(error)));
      };
      socket.on('error', onError);
      if (next < addresses.length) stagger = setTimeout(attempt, STAGGER_MS);
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    attempt();
  });
}

function secure(raw: Socket, target: DialTarget, signal: AbortSignal): Promise<Socket> {
  return new Promise((done, fail) => {
    const named = isIP(target.hostname) === 0;
    const socket = connectTls({
      socket: raw,
      host: target.hostname,
      ...(named ? { servername: target.hostname } : {}),
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: !target.skipTlsVerification,
    });
    const finish = (error?: unknown) => {
      signal.removeEventListener('abort', onAbort);
      if (error === undefined) {
        socket.off('error', onError);
        return done(socket);
      }
      socket.destroy();
      raw.destroy();
      fail(error);
    };
    const onAbort = () => finish(signal.reason);
    const onError = (error: Error) => finish(new TroubleError(untrusted(error)));
    socket.once('secureConnect', () => finish());
    socket.on('error', onError);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** Lets a promise that cannot be stopped (a system lookup) be waited for no longer than the signal allows. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((done, fail) => {
    const onAbort = () => fail(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(done, fail).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function trouble(code: CauseCode, text: string): Trouble {
  return { code, text, delivered: 'no', retryable: true };
}

function unreachable(error: Error): Trouble {
  const code = nodeCode(error);
  const cause = { code, message: error.message };
  if (code === 'ETIMEDOUT') return { ...trouble('connect_timeout', `could not be connected to (${code}).`), cause };
  const text = code === 'ECONNREFUSED' ? `refused the connection (${code}).` : `cannot be reached (${code}).`;
  return { ...trouble('connection_refused', text), cause };
}

function untrusted(error: Error): Trouble {
  const code = nodeCode(error);
  const broken = code === 'ECONNRESET' || code === 'EPIPE';
  return {
    code: 'tls_failed',
    text: `did not agree on a secure connection (${code}).`,
    delivered: 'no',
    retryable: broken,
    cause: { code, message: error.message },
    ...(broken || code === 'EPROTO' || code.startsWith('ERR_SSL')
      ? { remedy: 'Check that the port speaks TLS, and its versions.' }
      : { remedy: 'Check the certificate, or set client_config.skip_ssl_verification to true for this connector.' }),
  };
}
