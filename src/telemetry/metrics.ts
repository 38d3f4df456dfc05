import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { EventBus } from './event-bus.ts';
import { processMetrics } from './process-metrics.ts';

/** What became of a tool call or of an attempt to connect; `code` is a cause code where it failed. */
export interface Outcome {
  readonly outcome: string;
  readonly code?: string;
}

/** What the metrics show of a connection, taken from its report. Times are epoch milliseconds. */
export interface ConnectionFacts {
  readonly connector_id: string;
  readonly name: string;
  readonly status: string;
  readonly since: number;
  readonly tool_count: number;
  readonly breaker: { readonly state: string };
  readonly caller_sessions?: number;
}

/** Counts what happens, and writes it down in the text format of Prometheus. Counting never fails. */
export interface Metrics {
  readonly contentType: string;
  /** `route` is the template, never the path. */
  request(request: { method: string; route: string; status: number; seconds: number }): void;
  /** One tool call of a connector, as its caller saw it. */
  toolCall(connectorId: string, outcome: Outcome, seconds: number): void;
  /** One attempt to connect; `background` when nobody waits for it. */
  connectAttempt(connectorId: string, outcome: Outcome & { readonly background: boolean }): void;
  /** A connector is gone: its counts are. */
  forget(connectorId: string): void;
  modelCall(outcome: Outcome): void;
  /** Everything counted so far, and the connections as they are now. */
  text(connections: readonly ConnectionFacts[]): Promise<string>;
}

/** Connectors with series of their own; those beyond share the label `other`. */
const MAX_CONNECTORS = 1000;
const LONGEST_LABEL = 128;
const OTHER = 'other';
const STATES = ['idle', 'connecting', 'connected', 'failed', 'auth_required', 'disabled'];
const BREAKER_STATES = ['closed', 'open', 'half_open'];
const SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

const RUN_STATES: ReadonlySet<unknown> = new Set(['started', 'continued', 'suspended', 'completed', 'failed']);

/**
 * Nothing counted yet; runs are counted by their events. The registry is its own: several servers of one process do not mix.
 */
export function createMetrics({ events }: { readonly events: Pick<EventBus, 'listen'> }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  processMetrics(registry);
  const requests = new Counter({
    name: 'tenon_http_requests_total',
    help: 'Answered requests.',
    labelNames: ['method', 'route', 'status'],
    registers,
  });
  const requestSeconds = new Histogram({
    name: 'tenon_http_request_duration_seconds',
    help: 'From the request line to the end of the answer.',
    labelNames: ['method', 'route'],
    buckets: SECONDS,
    registers,
  });
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `tenon_mcp_${name}`, help, labelNames, registers });
  const state = gauge('connection_state', '1 for the state it is in.', 'connector_id', 'name', 'state');
  const since = gauge('connection_since_seconds', 'When that state began, Unix time.', 'connector_id', 'name');
  const tools = gauge('tools', 'Tools it offers.', 'connector_id', 'name');
  const breaker = gauge('breaker_state', '1 for the state of its breaker.', 'connector_id', 'name', 'state');
  const sessions = gauge('sessions_open', 'Open sessions, those of single callers included.');
  const gauges = [state, since, tools, breaker, sessions];
  const attempts = new Counter({
    name: 'tenon_mcp_connect_attempts_total',
    help: 'Attempts to connect.',
    labelNames: ['connector_id', 'outcome', 'code', 'background'],
    registers,
  });
  const calls = new Counter({
    name: 'tenon_mcp_calls_total',
    help: 'Tool calls.',
    labelNames: ['connector_id', 'outcome', 'code'],
    registers,
  });
  const callSeconds = new Histogram({
    name: 'tenon_mcp_call_duration_seconds',
    help: 'Of tool calls, waiting and repeating included.',
    labelNames: ['connector_id'],
    buckets: SECONDS,
    registers,
  });
  const runs = new Counter({
    name: 'tenon_runs_total',
    help: 'Runs of agents that came into that state.',
    labelNames: ['state'],
    registers,
  });
  const modelCalls = new Counter({
    name: 'tenon_model_calls_total',
    help: 'Calls of models.',
    labelNames: ['outcome', 'code'],
    registers,
  });
  events.listen(({ type, data }) => {
    if (type === 'run' && RUN_STATES.has(data.event)) runs.inc({ state: String(data.event) });
  });
  /** What takes the series of each connector away again, by their labels. */
  const removals = new Map<string, Map<string, () => void>>();

  /** Labels of a connector's series; beyond the bound they are those of all others together. */
  function labelsOf<L extends Record<string, string>>(
    metric: Counter | Histogram,
    id: string,
    labels: L,
  ): L & { connector_id: string } {
    const own = removals.get(id) ?? (removals.size < MAX_CONNECTORS ? new Map<string, () => void>() : undefined);
    if (own === undefined) return { connector_id: OTHER, ...labels };
    removals.set(id, own);
    const series = { connector_id: id, ...labels };
    own.set(JSON.stringify([metric === attempts, labels]), () => metric.remove(series));
    return series;
  }

  return {
    contentType: registry.contentType,
    request({ method, route, status, seconds }) {
      requests.inc({ method, route, status });
      requestSeconds.observe({ method, route }, seconds);
    },
    toolCall(connectorId, { outcome, code = '' }, seconds) {
      calls.inc(labelsOf(calls, connectorId, { outcome, code }));
      callSeconds.observe(labelsOf(callSeconds, connectorId, {}), seconds);
    },
    connectAttempt(connectorId, { outcome, code = '', background }) {
      attempts.inc(labelsOf(attempts, connectorId, { outcome, code, background: String(background) }));
    },
    forget(connectorId) {
      for (const remove of removals.get(connectorId)?.values() ?? []) remove();
      removals.delete(connectorId);
    },
    modelCall: ({ outcome, code = '' }) => modelCalls.inc({ outcome, code }),
    async text(connections) {
      for (const metric of gauges) metric.reset();
      let open = 0;
      const shown = new Set<string>();
      for (const facts of connections) {
        open += (facts.status === 'connected' ? 1 : 0) + (facts.caller_sessions ?? 0);
        if (shown.size >= MAX_CONNECTORS || shown.has(facts.connector_id)) continue;
        shown.add(facts.connector_id);
        const labels = { connector_id: facts.connector_id, name: label(facts.name) };
        for (const each of STATES) state.set({ ...labels, state: each }, each === facts.status ? 1 : 0);
        for (const each of BREAKER_STATES)
          breaker.set({ ...labels, state: each }, each === facts.breaker.state ? 1 : 0);
        since.set(labels, facts.since / 1000);
        tools.set(labels, facts.tool_count);
      }
      sessions.set(open);
      return registry.metrics();
    },
  };
}

/** Names are the users' own: one line, no control characters, not endless. */
function label(text: string): string {
  return text.replace(/\p{Cc}|\p{Bidi_Control}|\p{Cs}/gu, '\u{fffd}').slice(0, LONGEST_LABEL);
}
