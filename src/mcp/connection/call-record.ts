import { isCatalogueError, UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { AuditEntry } from '../../schemas/audit.ts';
import type { Settings } from '../../settings/types.ts';
import type { Audit } from '../../telemetry/audit.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { argumentsHash } from '../tool-call.ts';
import type { McpCall, McpCallResult } from '../types.ts';

export interface CallRecordDeps {
  readonly audit: Audit;
  readonly metrics?: Pick<Metrics, 'toolCall'>;
  readonly settings: Pick<Settings, 'flag'>;
}

const PAYLOADS = 'plugins.ml_commons.audit.payloads';

/** Runs one call and leaves its row in the audit trail and its count in the metrics, whatever becomes of it. */
export async function recorded(
  connectorId: string,
  request: McpCall,
  values: JsonObject,
  { audit, metrics, settings }: CallRecordDeps,
  work: () => Promise<McpCallResult>,
): Promise<McpCallResult> {
  const began = performance.now();
  const entry = {
    principal: request.principal.id,
    action: 'tool_call',
    ...(request.agentId !== undefined && { agentId: request.agentId }),
    connectorId,
    tool: request.tool,
    argumentsHash: argumentsHash(values),
    ...(settings.flag(PAYLOADS) && { arguments: request.argumentsText }),
  };
  const record = (facts: Pick<AuditEntry, 'outcome' | 'bytes' | 'detail' | 'result'>): Promise<void> => {
    const durationMs = performance.now() - began;
    const { outcome, detail: code } = facts;
    metrics?.toolCall(connectorId, { outcome, ...(code !== undefined && { code }) }, durationMs / 1000);
    return audit.record({ ...entry, durationMs: Math.round(durationMs), ...facts });
  };
  try {
    const result = await work();
    const { bytes, content, structuredContent, isError } = result;
    const kept = settings.flag(PAYLOADS) && { result: JSON.stringify({ content, structuredContent }) };
    await record({ outcome: isError ? 'tool_error' : 'ok', bytes, ...kept });
    return result;
  } catch (error) {
    await record(failedOutcome(error, request.signal));
    throw error;
  }
}

function failedOutcome(error: unknown, signal: AbortSignal | undefined): Pick<AuditEntry, 'outcome' | 'detail'> {
  if (signal?.aborted) return { outcome: 'cancelled' };
  if (error instanceof UpstreamError) {
    return { outcome: error.delivered === 'unknown' ? 'unknown' : 'failed', detail: error.code };
  }
  return { outcome: 'failed', detail: isCatalogueError(error) ? error.code : 'internal' };
}
