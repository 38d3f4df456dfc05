import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';

export interface Turn {
  readonly status: number;
  /** `response` of the answer. */
  readonly answer: string;
  readonly memoryId: string;
  readonly messageId: string;
  /** The `Warning` header. */
  readonly warning: string | null;
  readonly body: JsonObject;
}

/** Octets of each connection that went through, as the server received them. */
export interface Tap {
  readonly url: string;
  octets(): string;
  close(): Promise<void>;
}

export interface Rig {
  readonly app: TestApp;
  readonly llm: FakeLlmServer;
  readonly modelId: string;
  /** An MCP server that stops at the end of the test. */
  serve(script?: FakeMcpScript): Promise<FakeMcpServer>;
  tap(server: FakeMcpServer): Promise<Tap>;
  /** Below `/_plugins/_ml`; the text of every answer is kept. */
  send(method: string, path: string, body?: JsonValue): Promise<TestAnswer & { readonly body: JsonObject }>;
  /** The body of a 200. */
  ok(method: string, path: string, body?: JsonValue): Promise<JsonObject>;
  /** Creates a connector with short limits; resolves with its id. */
  connector(url: string, more?: JsonObject): Promise<string>;
  /** A conversational agent with the tools of these connectors; resolves with its id. */
  agent(...connectorIds: string[]): Promise<string>;
  ask(agentId: string, parameters: JsonObject | string): Promise<Turn>;
  call(connectorId: string, tool: string, values?: JsonObject): Promise<TestAnswer & { readonly body: JsonObject }>;
  status(connectorId: string, query?: string): Promise<JsonObject>;
  /** What the agent's GET says about its connectors. */
  connections(agentId: string, query?: string): Promise<JsonObject[]>;
  /** Every answer and log line so far. */
  said(): string;
  /** Octets of the database and the files beside it, latin1. */
  databaseOctets(): Promise<string>;
  /** Ends the server and starts it again on the same data. */
  restart(): Promise<void>;
}

const QUICK = { connection_timeout: 5, read_timeout: 5, retry_backoff_millis: 20 };

/** One whole server and a strict model for the tests of a file; MCP servers are those of one test. */
export function startRig(): Rig {
  const peers: { stop(): Promise<void> }[] = [];
  const answers: string[] = [];
  const earlierLines: string[] = [];
  let folder = '';
  let app: TestApp;
  let llm: FakeLlmServer;
  let modelId = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tenon-hazards-'));
    [app, llm] = await Promise.all([startApp({ folder }), startFakeLlm({ strict: true })]);
    const model = { name: 'chat', function_name: 'remote', connector: chatConnector(llm.url) };
    modelId = String((await rig.ok('POST', '/models/_register?deploy=true', model)).model_id);
  });
  afterEach(async () => {
    await Promise.all(peers.splice(0).map((peer) => peer.stop()));
  });
  afterAll(async () => {
    await app?.close();
    await llm?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const rig: Rig = {
    get app() {
      return app;
    },
    get llm() {
      return llm;
    },
    get modelId() {
      return modelId;
    },
    async serve(script = {}) {
      const peer = await startFakeMcpServer(script);
      peers.push({ stop: () => peer.stop().catch(() => undefined) });
      return peer;
    },
    async tap(server) {
      const tap = await startTap(server.port);
      peers.push({ stop: tap.close });
      return tap;
    },
    async send(method, path, body) {
      const answer = await app.request(method, `/_plugins/_ml${path}`, body);
      answers.push(answer.text);
      return { ...answer, body: answer.body as JsonObject };
    },
    async ok(method, path, body) {
      const answer = await rig.send(method, path, body);
      if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.body;
    },
    async connector(url, more = {}) {
      const { client_config: config, ...members } = more;
      const created = await rig.ok('POST', '/connectors/_create', {
        name: 'weather',
        version: 1,
        protocol: 'mcp_streamable_http',
        url,
        client_config: { ...QUICK, ...((config as JsonObject | undefined) ?? {}) },
        ...members,
      });
      return String(created.connector_id);
    },
    async agent(...connectorIds) {
      const tools = connectorIds.map((id) => ({ type: 'MCPTool', parameters: { connector_id: id } }));
      const agent = { name: 'assistant', type: 'conversational', llm: { model_id: modelId }, tools };
      return String((await rig.ok('POST', '/agents/_register', agent)).agent_id);
    },
    async ask(agentId, parameters) {
      const given = typeof parameters === 'string' ? { question: parameters } : parameters;
      const { status, headers, body } = await rig.send('POST', `/agents/${agentId}/_execute`, { parameters: given });
      const [first] = (body.inference_results ?? []) as unknown as { output: JsonObject[] }[];
      const [memory, message, response] = first?.output ?? [];
      return {
        status,
        answer: String((response?.dataAsMap as JsonObject | undefined)?.response),
        memoryId: String(memory?.result),
        messageId: String(message?.result),
        warning: headers.get('warning'),
        body,
      };
    },
    call: (connectorId, tool, values = {}) =>
      rig.send('POST', `/connectors/${connectorId}/tools/${encodeURIComponent(tool)}/_execute`, { arguments: values }),
    status: (connectorId, query = '') => rig.ok('GET', `/connectors/${connectorId}/_status${query}`),
    async connections(agentId, query = '') {
      return (await rig.ok('GET', `/agents/${agentId}${query}`)).mcp_connections as JsonObject[];
    },
    said: () => [...earlierLines, ...app.lines, ...answers].join('\n'),
    async databaseOctets() {
      const files = await readdir(app.config.dataDir);
      return (await Promise.all(files.map((file) => readFile(join(app.config.dataDir, file), 'latin1')))).join('\n');
    },
    async restart() {
      await app.close();
      earlierLines.push(...app.lines);
      app = await startApp({ folder });
    },
  };
  return rig;
}

/** A relay that keeps what it passes on to `port`. */
async function startTap(port: number): Promise<Tap> {
  const received: Buffer[][] = [];
  const relay = createServer((socket) => {
    const chunks: Buffer[] = [];
    received.push(chunks);
    const upstream = connect(port, '127.0.0.1');
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      one.pipe(other);
      one.on('error', () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  const address = relay.address() as { port: number };
  return {
    url: `http://127.0.0.1:${address.port}`,
    octets: () => received.map((chunks) => Buffer.concat(chunks).toString('latin1')).join('\n'),
    close: () => new Promise((resolve) => relay.close(() => resolve())),
  };
}

/** Waits for what happens beside the answers, at most 10 s. */
export async function until(happened: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 10_000; !(await happened()); await sleep(10)) {
    if (Date.now() > end) throw new Error('it did not happen within 10 s');
  }
}

/** A header value as Node shows it: the octets of UTF-8 text, one character each. */
export function octetsOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Where a text holds what it must not, with some characters around; short enough to be shown by a failing test. */
export function found(text: string, ...needles: readonly (string | RegExp)[]): string[] {
  return needles.flatMap((needle) => {
    const at = typeof needle === 'string' ? text.indexOf(needle) : text.search(needle);
    return at === -1 ? [] : [text.slice(Math.max(0, at - 150), at + 100)];
  });
}

/** The reason of an error answer, whatever its envelope. */
export function reasonOf({ body }: { readonly body: JsonObject }): string {
  const error = body.error as JsonObject | undefined;
  return String(error?.details ?? error?.reason);
}
