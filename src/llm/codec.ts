import { compileText } from '../connectors/template.ts';
import type { Connector } from '../connectors/types.ts';
import { renderOwnUrl } from '../connectors/url-template.ts';
import { INVALID_ARGUMENT } from '../errors.ts';
import { openAiChat } from './codecs/openai-chat.ts';
import type { LlmCodec } from './types.ts';

const CODECS: Readonly<Record<string, LlmCodec>> = { [openAiChat.name]: openAiChat };

/** Names the API documents whose wire format has no codec here. */
const KNOWN = new Set(['bedrock/converse/claude', 'bedrock/converse/deepseek_r1', 'gemini/v1beta/generatecontent']);

/** Which format an address speaks: its path alone decides. */
const PATHS: readonly (readonly [RegExp, string])[] = [
  [/\/chat\/completions\/?$/, openAiChat.name],
  [/\/converse(-stream)?\/?$/, 'bedrock/converse/claude'],
  [/:(stream)?generateContent$/i, 'gemini/v1beta/generatecontent'],
  [/\/v1\/messages\/?$/, 'anthropic/v1/messages'],
  [/\/v1\/responses\/?$/, 'openai/v1/responses'],
];

/**
 * Checks an `_llm_interface` value without needing its codec; answers its canonical spelling.
 * @throws INVALID_ARGUMENT `_llm_interface cannot be blank or empty`, `Invalid _llm_interface`
 */
export function checkLlmInterface(value: string): string {
  const name = value.trim().toLowerCase();
  if (name === '') throw new INVALID_ARGUMENT('_llm_interface cannot be blank or empty');
  if (!Object.hasOwn(CODECS, name) && !KNOWN.has(name)) throw new INVALID_ARGUMENT('Invalid _llm_interface');
  return name;
}

/** The codec of an `_llm_interface` value. @throws INVALID_ARGUMENT as `checkLlmInterface`, and when it is not served yet */
export function codecNamed(value: string): LlmCodec {
  const name = checkLlmInterface(value);
  const codec = Object.hasOwn(CODECS, name) ? CODECS[name] : undefined;
  if (codec === undefined) throw notServed(`_llm_interface ${name} is a valid name, but it`);
  return codec;
}

/**
 * The codec of a model whose agent names no `_llm_interface`: told from the address of its connector's predict action.
 * @throws INVALID_ARGUMENT when the address tells none, or one that is not served yet
 */
export function codecOf(connector: Connector, model: string): LlmCodec {
  const name = formatOf(connector);
  if (name === undefined) {
    throw new INVALID_ARGUMENT(
      `The wire format of model ${model} cannot be told from the predict url of its connector ${connector.name}. Set the agent's parameters._llm_interface, for example to ${openAiChat.name}.`,
    );
  }
  const codec = Object.hasOwn(CODECS, name) ? CODECS[name] : undefined;
  if (codec === undefined) throw notServed(`The wire format ${name} of model ${model}`);
  return codec;
}

function notServed(subject: string): Error {
  return new INVALID_ARGUMENT(
    `${subject} is not served yet. Use a model behind an address that ends in /chat/completions (${openAiChat.name}).`,
  );
}

function formatOf(connector: Connector): string | undefined {
  const action = connector.actions?.find(({ action_type }) => action_type.toLowerCase() === 'predict');
  if (action === undefined) return undefined;
  const path = ownUrl(action.url, connector).replace(/[?#].*$/s, '');
  return PATHS.find(([pattern]) => pattern.test(path))?.[1];
}

/** A placeholder that only a call can fill stays as it is written: the path behind it still tells the format. */
function ownUrl(url: string, connector: Connector): string {
  try {
    return renderOwnUrl(compileText(url), connector.parameters);
  } catch {
    return url;
  }
}
