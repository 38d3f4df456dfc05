import { INVALID_ARGUMENT } from '../errors.ts';

const PRE =
  /^connector\.pre_process\.(?:openai\.embedding|cohere\.(?:embedding|multimodal_embedding|rerank)|bedrock\.(?:embedding|multimodal_embedding|rerank|nova\.(?:embedding|(?:text|image|video|audio)_embedding))|default\.(?:embedding|rerank))$/;
const POST =
  /^connector\.post_process\.(?:openai\.embedding|cohere\.(?:embedding|rerank)|cohere_v2\.embedding\.(?:float|int8|uint8|binary|ubinary)|bedrock\.(?:embedding|batch_job_arn|rerank|nova\.embedding)|bedrock_v2\.embedding\.(?:float|binary)|default\.(?:embedding|rerank)|mlcommons\.passthrough)$/;

/**
 * Checks the name of a built-in pre- or post-process function.
 * @throws INVALID_ARGUMENT for anything else, scripts above all: no script engine runs here
 */
export function checkProcessFunction(member: 'pre_process_function' | 'post_process_function', value: string): void {
  if ((member === 'pre_process_function' ? PRE : POST).test(value)) return;
  const example =
    member === 'pre_process_function'
      ? 'connector.pre_process.openai.embedding'
      : 'connector.post_process.openai.embedding';
  throw new INVALID_ARGUMENT(
    `Unsupported ${member}. Only built-in functions such as ${example} can be used; scripts are not run.`,
  );
}
