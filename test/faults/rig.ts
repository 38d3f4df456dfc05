import { afterAll, expect } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type Rig, until } from '../hazards/rig.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';

/** What one run with the tool `echo` showed. */
export interface ToolTurn {
  readonly answer: string;
  readonly warning: string | null;
  /** What the model read last, as JSON text. */
  readonly told: string;
  /** `_status` while the model was reading that: before the reply of the run was sent. */
  readonly before: JsonObject;
}

export interface FaultRig {
  /** An MCP server that lives as long as the file, so that what is left behind at it can be counted in the end. */
  serve(script?: FakeMcpScript): Promise<FakeMcpServer>;
  /** Counts what is left at a server that was started otherwise. */
  watch(server: FakeMcpServer): void;
  /** Retries are off and limits short unless `config` says otherwise. */
  connector(url: string, config?: JsonObject): Promise<string>;
  /** One run in which the model calls the first tool it is offered with `{"text": <text>}`, if it is offered one. */
  turn(agentId: string, connectorId: string, text: string): Promise<ToolTurn>;
  /** Removes the connectors of the test; waits until no request is under way and no session open at its servers. */
  leave(servers?: readonly FakeMcpServer[]): Promise<void>;
  /** No server holds a socket of ours any more. */
  nothingIsLeft(): Promise<void>;
}

const SHORT = { connection_timeout: 1, read_timeout: 1, max_total_timeout: 10, max_retry_times: 0 };

/** Everything about faults that `rig` does not know. */
export function startFaultRig(rig: Rig): FaultRig {
  const servers: FakeMcpServer[] = [];
  const connectors: string[] = [];

  afterAll(() => Promise.all(servers.map((server) => server.stop().catch(() => undefined))));

  return {
    async serve(script = {}) {
      const server = await startFakeMcpServer(script);
      servers.push(server);
      return server;
    },
    watch: (server) => void servers.push(server),
    async connector(url, config = {}) {
      const id = await rig.connector(url, { client_config: { ...SHORT, ...config } });
      connectors.push(id);
      return id;
    },
    async turn(agentId, connectorId, text) {
      let before: JsonObject = {};
      let told = '';
      rig.llm.reset(async (request) => {
        before = await rig.status(connectorId);
        told = request.text;
        const last = request.messages.at(-1);
        const [tool] = request.toolNames;
        if (last?.role === 'tool' || tool === undefined) return String(last?.content);
        return { tool, args: JSON.stringify({ text }) };
      });
      const { status, answer, warning, body } = await rig.ask(agentId, 'go');
      expect(status, JSON.stringify(body)).toBe(200);
      return { answer, warning, told, before };
    },
    async leave(of = servers) {
      for (const id of connectors.splice(0)) await rig.ok('DELETE', `/connectors/${id}`);
      await until(() => of.every((server) => server.unanswered() === 0));
      expect(of.flatMap(abandoned)).toEqual([]);
    },
    async nothingIsLeft() {
      expect(servers.length).toBeGreaterThan(0);
      await until(() => servers.every((server) => server.openSockets() === 0));
    },
  };
}

/** Sessions of a server that nobody ended, or tried to. */
function abandoned(server: FakeMcpServer): string[] {
  const ended = new Set(server.of('DELETE').map(({ headers }) => headers['mcp-session-id']));
  return server.openSessions().filter((id) => !ended.has(id));
}

/** How often a call with `{"text": <text>}` reached the server. */
export function callsWith(server: FakeMcpServer, text: string): number {
  return server.of('tools/call').filter(({ body }) => body.includes(JSON.stringify({ text }).slice(1, -1))).length;
}
