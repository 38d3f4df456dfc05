import type { Connectors } from '../connectors/types.ts';
import { INVALID_ARGUMENT, isCatalogueError, UpstreamError } from '../errors.ts';
import {
  exceedsDepth,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  MAX_REMOTE_DEPTH,
  parameterTexts,
  parseJson,
} from '../json.ts';
import { logModelFailure, type OpenModel } from '../llm/client.ts';
import { emptyBodyError, providerError, tooDeepError } from '../llm/provider-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { optionalObject, optionalText } from './fields.ts';
import { applyResponseFilter } from './response-filter.ts';

export interface PredictDeps {
  readonly connectors: Pick<Connectors, 'execute'>;
  readonly redactor: Redactor;
  readonly log: Logger;
  readonly now: () => number;
}

export type Predict = (model: OpenModel, body: JsonObject, signal: AbortSignal | undefined) => Promise<JsonObject>;

const DATASET_MEMBERS = ['text_docs', 'query_text', 'input_data', 'input_index', 'input_query'];

/** Runs one action of a model's connector and wraps the provider's answer as `POST /models/{id}/_predict` shows it. */
export function createPredict({ connectors, redactor, log, now }: PredictDeps): Predict {
  async function predict(...[model, body, signal]: Parameters<Predict>): Promise<JsonObject> {
    const request = readRequest(body);
    const response = await connectors.execute(model.connector, {
      ...request,
      ...(signal === undefined ? {} : { signal }),
    });
    const destination = `model ${model.name}`;
    const { status } = response;
    if (status < 200 || status > 299) throw providerError(response, destination, redactor, now());
    if (response.body.trim() === '') throw emptyBodyError(destination, status);
    const parsed = parseJson(response.body);
    if (exceedsDepth(parsed, MAX_REMOTE_DEPTH)) throw tooDeepError(destination, status);
    const filter = request.parameters.response_filter ?? model.connector.parameters.response_filter;
    const dataAsMap = parsed === undefined ? { response: response.body } : mapOf(parsed, filter);
    const shown = redactor.cleanContent(dataAsMap);
    return { inference_results: [{ output: [{ name: 'response', dataAsMap: shown }], status_code: status }] };
  }

  return (model, body, signal) =>
    predict(model, body, signal).catch((error: unknown) => {
      const ofCaller = isCatalogueError(error) && !(error instanceof UpstreamError);
      if (!ofCaller) logModelFailure(model, error, { log, redactor });
      throw error;
    });
}

function readRequest(body: JsonObject): { actionType: string; parameters: Record<string, string> } {
  const parameters = optionalObject(body, 'parameters');
  const dataset = DATASET_MEMBERS.find((name) => body[name] !== undefined);
  if (parameters === undefined && dataset !== undefined) {
    throw new INVALID_ARGUMENT(
      `${dataset} needs a pre-process function, and none is served yet. Send the values of the connector's template in parameters.`,
    );
  }
  return {
    actionType: (optionalText(body, 'action_type') ?? 'predict').toLowerCase(),
    parameters: parameterTexts(parameters ?? {}),
  };
}

function mapOf(answer: JsonValue, filter: string | undefined): JsonObject {
  const value = filter === undefined || filter.trim() === '' ? answer : applyResponseFilter(answer, filter);
  return isJsonObject(value) ? value : { response: value };
}
