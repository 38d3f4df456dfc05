import { INVALID_ARGUMENT } from '../errors.ts';
import { type JsonObject, parameterText } from '../json.ts';

/** Algorithms that ML Commons runs inside the cluster. */
const LOCAL = new Set([
  'TEXT_EMBEDDING',
  'SPARSE_ENCODING',
  'SPARSE_TOKENIZE',
  'TEXT_SIMILARITY',
  'QUESTION_ANSWERING',
  'IMAGE_EMBEDDING',
  'METRICS_CORRELATION',
  'LINEAR_REGRESSION',
  'LOGISTIC_REGRESSION',
  'KMEANS',
  'AD_LIBSVM',
  'SAMPLE_ALGO',
  'LOCAL_SAMPLE_CALCULATOR',
  'FIT_RCF',
  'BATCH_RCF',
  'RCF_SUMMARIZE',
  'ANOMALY_LOCALIZATION',
  'AGENT',
  'CONNECTOR',
]);

/**
 * Only remote models are served. An absent function name means `TEXT_EMBEDDING`, as in ML Commons.
 * @throws INVALID_ARGUMENT `Wrong function name`, `model format is null`, or that local models do not run here
 */
export function requireRemote(body: JsonObject): void {
  const given = body.function_name;
  const name = given === undefined || given === null ? 'TEXT_EMBEDDING' : parameterText(given).toUpperCase();
  if (name === 'REMOTE') return;
  if (!LOCAL.has(name)) throw new INVALID_ARGUMENT('Wrong function name');
  const format = body.model_format;
  if (format === undefined || format === null || format === '') {
    throw new INVALID_ARGUMENT('model format is null. Set function_name to remote and give a connector_id.');
  }
  throw new INVALID_ARGUMENT(
    `Local models (function_name ${name}) do not run here. Set function_name to remote and give a connector_id.`,
  );
}
