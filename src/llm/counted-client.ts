import { isCatalogueError, UpstreamError } from '../errors.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ModelClient, ModelEvent } from './types.ts';

/** The same client; what becomes of each call is counted. One whose reader stops early is `cancelled`. */
export function countModelCalls(client: ModelClient, metrics: Pick<Metrics, 'modelCall'>): ModelClient {
  return {
    async stream(modelId, llmInterface, request, signal) {
      try {
        return counted(await client.stream(modelId, llmInterface, request, signal), metrics, signal);
      } catch (error) {
        metrics.modelCall({ outcome: 'refused', code: codeOf(error) });
        throw error;
      }
    },
  };
}

async function* counted(
  events: AsyncIterable<ModelEvent>,
  metrics: Pick<Metrics, 'modelCall'>,
  signal: AbortSignal | undefined,
): AsyncGenerator<ModelEvent, void, undefined> {
  let outcome: { readonly outcome: string; readonly code?: string } = { outcome: 'cancelled' };
  try {
    for await (const event of events) {
      if (event.type === 'done') outcome = { outcome: 'ok' };
      if (event.type === 'error' && !signal?.aborted) outcome = { outcome: 'failed', code: codeOf(event.error) };
      yield event;
    }
  } finally {
    metrics.modelCall(outcome);
  }
}

/** The same for a call that is no stream. What fails at the remote side `failed`, what the catalogue refuses never left. */
export async function countModelCall<T>(
  work: () => Promise<T>,
  metrics: Pick<Metrics, 'modelCall'> | undefined,
  signal: AbortSignal | undefined,
): Promise<T> {
  try {
    const answer = await work();
    metrics?.modelCall({ outcome: 'ok' });
    return answer;
  } catch (error) {
    const refused = isCatalogueError(error) && !(error instanceof UpstreamError);
    const outcome = signal?.aborted ? 'cancelled' : refused ? 'refused' : 'failed';
    metrics?.modelCall({ outcome, ...(outcome !== 'cancelled' && { code: codeOf(error) }) });
    throw error;
  }
}

/** One of a bounded number of words. */
function codeOf(error: unknown): string {
  return error instanceof UpstreamError || isCatalogueError(error) ? error.code : 'internal';
}
