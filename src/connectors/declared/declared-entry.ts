import { dirname, resolve as resolvePath } from 'node:path';
import { INVALID_ARGUMENT, isCatalogueError } from '../../errors.ts';
import { chosenId } from '../../ids.ts';
import { isJsonObject, type JsonObject } from '../../json.ts';
import { judgeUrl } from '../../outbound/address-guard.ts';
import { clientConfigInForce } from '../client-config.ts';
import { ignoredHeaders, renderLiteralHeaders } from '../headers.ts';
import { isGiven } from '../members.ts';
import type { Connector, ConnectorProtocol, DeclaredServer, LocalServer } from '../types.ts';
import type { DeclaredEntry } from './declared-files.ts';
import {
  protocolOf,
  readAgents,
  readCommand,
  readDeclaredAuth,
  readEnabled,
  readEnvironment,
  readLimits,
  readTexts,
  readUrl,
  unknownMembers,
} from './declared-members.ts';
import {
  createResolver,
  foreignPlaceholder,
  inheritedEnvironment,
  type Resolver,
  shownValue,
  type Variables,
} from './declared-variables.ts';

/** A server of a configuration file, read. */
export interface Declaration {
  readonly connector: Connector;
  /** As `GET` shows it: no value of a variable, no literal value of a header or of the environment. */
  readonly document: JsonObject;
  /** Of a remote one that can be used. Never logged. */
  readonly endpoint?: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** Of a local one that can be used. */
  readonly local?: LocalServer;
  /** Texts that must appear nowhere. */
  readonly secrets: readonly string[];
  /** What does not keep it from working. */
  readonly warnings: readonly string[];
}

const CORRECT = 'Correct the entry in the configuration file, or set the variable it names, and restart the server.';
const ANOTHER_ADDRESS = 'Use another address: no setting allows this one.';
const LEAST_LIKELY_MS = 1000;

interface Reading {
  readonly path: string;
  readonly entry: JsonObject;
  readonly resolver: Resolver;
  readonly variables: Variables;
  readonly warn: (text: string) => void;
}
type Read = Pick<Declaration, 'endpoint' | 'local' | 'document'> & {
  readonly url?: { readonly used: string; readonly shown: string };
};

/** Reads one entry. What is wrong with it becomes its `declared.problem`: one bad entry stops nobody. */
export function declarationOf({ name, entry, path, time }: DeclaredEntry, variables: Variables): Declaration {
  const warnings: string[] = [];
  const resolver = createResolver(variables);
  const where = `Server ${JSON.stringify(name.slice(0, 100))} of ${path}`;
  const base = (protocol: ConnectorProtocol) => ({
    id: name,
    name,
    protocol,
    parameters: {},
    clientConfig: clientConfigInForce(undefined, protocol),
    revision: 1,
  });
  const facts = { name, version: '1', parameters: {}, origin: 'config', created_time: time, last_updated_time: time };
  try {
    if (!isJsonObject(entry)) throw new INVALID_ARGUMENT('it must be an object.');
    chosenId('server', name);
    const protocol = protocolOf(entry);
    const unknown = unknownMembers(entry, protocol);
    if (unknown.length > 0) warnings.push(`not read, because such a server has no such member: ${unknown.join(', ')}`);
    const [enabled, agents] = [readEnabled(entry), readAgents(entry)];
    const reading: Reading = { path, entry, resolver, variables, warn: (text) => void warnings.push(text) };
    const { url, document, ...usable } = protocol === 'mcp_stdio' ? readLocal(reading) : readRemote(reading);
    const { clientConfig, limitsOfTimeout } = readLimits(entry, protocol);
    warnOfTimeout(entry, reading);
    const problem = url === undefined ? undefined : problemOf(where, url.used);
    const declared: DeclaredServer = {
      ...{ enabled, agents, warnings },
      ...(limitsOfTimeout && { limitsOfTimeout }),
      ...(problem && { problem }),
    };
    return {
      connector: { ...base(protocol), ...(url && { url: url.shown }), clientConfig, declared },
      document: {
        ...{ ...facts, protocol, ...document, enabled, agents },
        ...(isGiven(entry.timeout) && { timeout: entry.timeout }),
        client_config: { ...clientConfig },
      },
      ...usable,
      secrets: [...resolver.secrets],
      warnings,
    };
  } catch (error) {
    if (!isCatalogueError(error)) throw error;
    const protocol = isJsonObject(entry) && isGiven(entry.command) ? 'mcp_stdio' : 'mcp_streamable_http';
    const enabled = !isJsonObject(entry) || (entry.enabled !== false && entry.disabled !== true);
    const unknown = isJsonObject(entry) ? unknownMembers(entry) : [];
    const unread = unknown.length === 0 ? '' : ` No such server has a member ${unknown.join(', ')}.`;
    const message = `${where}: ${error.message}${unread}`;
    const problem = { code: 'invalid_config', message, remedy: CORRECT } as const;
    return {
      connector: { ...base(protocol), declared: { enabled, agents: [], problem, warnings } },
      document: { ...facts, protocol, enabled, agents: [] },
      secrets: [...resolver.secrets],
      warnings,
    };
  }
}

function readLocal({ path, entry, resolver, variables, warn }: Reading): Read {
  const [command, ...args] = readCommand(entry);
  const folder = dirname(path);
  if (isGiven(entry.cwd) && typeof entry.cwd !== 'string')
    throw new INVALID_ARGUMENT('cwd must be the path of a folder.');
  const cwd = resolvePath(folder, entry.cwd ?? '.');
  const written = readEnvironment(entry);
  const own = written.map(([name, text]) => [name, filledIn(`environment ${name}`, text, resolver, warn)] as const);
  const unpinned = [command, ...args].find((word) => word.endsWith('@latest'));
  if (unpinned !== undefined) {
    warn(`${unpinned} is whatever its publisher makes of it at each start; name a version in place of latest`);
  }
  return {
    local: { command, args, cwd, environment: { ...inheritedEnvironment(variables), ...Object.fromEntries(own) } },
    document: { command: [command, ...args], cwd, environment: written.map(([name]) => name) },
  };
}

function readRemote({ entry, resolver, warn }: Reading): Read {
  const url = readUrl(entry);
  const written = readTexts('headers', entry.headers);
  refuseTwice(written.map(([name]) => name));
  const values = written.map(([name, text]) => [name, filledIn(`header ${name}`, text, resolver, warn)] as const);
  const headers = Object.fromEntries(values);
  const ignored = ignoredHeaders(headers, 'mcp');
  if (ignored.length > 0) warn(`headers that the transport sets itself are not sent: ${ignored.join(', ')}`);
  const auth = readDeclaredAuth(entry, resolver);
  const rendered = renderLiteralHeaders(headers);
  for (const value of Object.values(rendered)) if (/^basic /i.test(value)) resolver.remember(value.slice(6).trim());
  for (const part of url.search.slice(1).split('&')) {
    const [name = '', ...rest] = part.split('=');
    resolver.rememberHidden(name, rest.join('='));
  }
  for (const [name, value] of url.searchParams) resolver.rememberHidden(name, value);
  const used = String(entry.url);
  const shown = `${url.origin}${url.pathname}`;
  return {
    url: { used, shown },
    endpoint: { url: used, headers: rendered },
    document: {
      url: url.search === '' ? shown : `${shown}?[redacted]`,
      headers: Object.fromEntries(written.map(([name, text]) => [name, shownValue(text)])),
      ...(auth && { auth }),
    },
  };
}

/** Names of header fields know no case (RFC 9110 section 5.1). */
function refuseTwice(names: readonly string[]): void {
  const lower = names.map((name) => name.toLowerCase());
  const twice = names.find((_name, at) => lower.indexOf(lower[at] ?? '') !== at);
  if (twice !== undefined) throw new INVALID_ARGUMENT(`headers names ${twice.slice(0, 100)} twice, in two spellings.`);
}

function filledIn(where: string, text: string, resolver: Resolver, warn: Reading['warn']): string {
  const foreign = foreignPlaceholder(text);
  if (foreign !== undefined) warn(`${where} holds ${foreign.slice(0, 100)}, which is sent as it is; write {env:NAME}`);
  return resolver.resolve(where, text);
}

function warnOfTimeout({ timeout }: JsonObject, { warn }: Reading): void {
  if (typeof timeout === 'number' && timeout < LEAST_LIKELY_MS)
    warn(`timeout is in milliseconds: ${timeout} ms is short`);
}

/** Declared addresses are trusted, private ones and http too; some never are. */
function problemOf(where: string, url: string): DeclaredServer['problem'] {
  const verdict = judgeUrl(url, {
    trusted: undefined,
    trustedPrivate: [{ source: '.*', test: () => true }],
    privateIpEnabled: true,
    loopbackAllowed: true,
    restrictedIps: [],
  });
  if (verdict.allowed) return undefined;
  const message = `${where}: ${verdict.reason}`;
  return verdict.kind === 'malformed'
    ? { code: 'invalid_config', message, remedy: CORRECT }
    : { code: 'address_refused', message, remedy: ANOTHER_ADDRESS };
}
