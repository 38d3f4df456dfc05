import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { isJsonObject, type JsonObject } from '../../src/json.ts';
import type { Services } from '../../src/services.ts';
import { type FakeLlmServer, type LlmScript, startFakeLlm } from '../support/fake-llm-server.ts';
import {
  type FakeMcpScript,
  type FakeMcpServer,
  type RecordedRequest,
  startFakeMcpServer,
} from '../support/fake-mcp-server.ts';
import { createRest, type Rest, registerChatModel } from '../support/rest.ts';

export interface Rig extends Rest {
  readonly url: string;
  readonly llm: FakeLlmServer;
  readonly modelId: string;
  services(): Services;
  readonly lines: string[];
  /** The SQL run so far, values included. */
  readonly statements: string[];
  /** An MCP server on a free port; stopped with the rig. */
  server(script?: FakeMcpScript): Promise<FakeMcpServer>;
  /** A connector to an address; `client_config` is quick to give up unless told otherwise. */
  connector(name: string, origin: string, more?: JsonObject): Promise<string>;
  /** A conversational agent with an MCPTool entry for each connector id, or with what is given. */
  agent(connectors: readonly (string | JsonObject)[], more?: JsonObject): Promise<string>;
  ask(agentId: string, question: string, more?: JsonObject): Promise<Reply>;
  /** The server stops and comes back on the same data. */
  restart(): Promise<void>;
  dispose(): Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
  readonly memoryId: string;
  readonly messageId: string;
  readonly text: string;
  readonly output: readonly JsonObject[];
}

/** The whole server on a SQLite file and real sockets, with a scripted model behind it. */
export async function openRig(...replies: LlmScript[]): Promise<Rig> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-agents-'));
  const lines: string[] = [];
  const statements: string[] = [];
  const config = readConfig({
    TENON_DATA_DIR: join(folder, 'data'),
    TENON_KEY_FILE: join(folder, 'key', 'master.key'),
    TENON_LOG_LEVEL: 'debug',
    XDG_CONFIG_HOME: folder,
  });
  const start = async () => {
    const app = await buildApp(config, {
      logStream: { write: (line: string) => void lines.push(line) },
      onStatement: (sql) => void statements.push(sql),
    });
    const url = await app.app.listen({ host: '127.0.0.1', port: 0 });
    return { app, url, rest: createRest(url) };
  };
  const llm = await startFakeLlm({ strict: true, replies });
  const servers: FakeMcpServer[] = [];
  let running = await start();
  const modelId = await registerChatModel(running.rest, llm.url);

  const rig: Rig = {
    get url() {
      return running.url;
    },
    llm,
    modelId,
    services: () => running.app.services,
    lines,
    statements,
    send: (method, path, body) => running.rest.send(method, path, body),
    ok: (method, path, body) => running.rest.ok(method, path, body),
    async server(script) {
      const server = await startFakeMcpServer(script);
      servers.push(server);
      return server;
    },
    async connector(name, origin, more = {}) {
      const { connector_id: id } = await rig.ok('POST', '/connectors/_create', {
        name,
        version: 1,
        protocol: 'mcp_streamable_http',
        url: origin,
        client_config: { max_retry_times: 0, connection_timeout: 2, read_timeout: 2 },
        ...more,
      });
      return String(id);
    },
    async agent(connectors, more = {}) {
      const tools = connectors.map((given) => ({
        type: 'MCPTool',
        parameters: typeof given === 'string' ? { connector_id: given } : given,
      }));
      const { agent_id: id } = await rig.ok('POST', '/agents/_register', {
        name: 'assistant',
        type: 'conversational',
        llm: { model_id: modelId },
        tools,
        ...more,
      });
      return String(id);
    },
    async ask(agentId, question, more = {}) {
      const answer = await rig.send('POST', `/agents/${agentId}/_execute`, { parameters: { question, ...more } });
      const [first] = (answer.body.inference_results ?? []) as { output: JsonObject[] }[];
      const output = first?.output ?? [];
      const result = (name: string) => String(output.find((part) => part.name === name)?.result ?? '');
      const response = output.find((part) => part.name === 'response');
      const map = response?.dataAsMap as JsonObject | undefined;
      return {
        ...answer,
        output,
        memoryId: result('memory_id'),
        messageId: result('parent_interaction_id'),
        text: String(map?.response ?? ''),
      };
    },
    async restart() {
      await running.app.close();
      running = await start();
    },
    async dispose() {
      await running.app.close();
      await Promise.all([llm.close(), ...servers.map((server) => server.stop())]);
      await rm(folder, { recursive: true, force: true });
    },
  };
  return rig;
}

/** The `params` of a recorded request. */
export function paramsOf(request: RecordedRequest): JsonObject {
  const params = request.message?.params;
  return isJsonObject(params) ? params : {};
}

/** The messages of role tool in a request to the model. */
export function toolMessages(llm: FakeLlmServer, request: number): string[] {
  const messages = llm.requests[request]?.messages ?? [];
  return messages.filter((message) => message.role === 'tool').map((message) => String(message.content));
}
