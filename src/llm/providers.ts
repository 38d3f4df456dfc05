/** How a vendor is reached when an agent names it in its `model` block: data only. */
export interface ProviderPreset {
  /** The `model_provider` value, and the wire format it speaks. */
  readonly name: string;
  readonly url: string;
  /** Key of the one credential it needs. */
  readonly credentialKey: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Parameters of the connector and their defaults; `model` is filled in at registration. */
  readonly defaults: Readonly<Record<string, string>>;
  /** Members of the request body that are always there, as template texts. */
  readonly body: readonly (readonly [member: string, template: string])[];
  /** Members that are there only when the parameter of that name is given. */
  readonly optional: readonly (readonly [parameter: string, template: string])[];
  /** Text that follows the messages: further members the platform adds. */
  readonly tail: string;
}

const OPENAI: ProviderPreset = {
  name: 'openai/v1/chat/completions',
  url: 'https://api.openai.com/v1/chat/completions',
  credentialKey: 'openai_api_key',
  headers: { Authorization: 'Bearer ${credential.openai_api_key}', 'Content-Type': 'application/json' },
  defaults: { max_tokens: '4096', temperature: '1.0' },
  body: [
    ['model', '"${parameters.model}"'],
    ['max_completion_tokens', '${parameters.max_tokens}'],
    ['temperature', '${parameters.temperature}'],
    [
      'messages',
      '[{"role":"system","content":"${parameters.system_prompt:-You are a helpful assistant.}"},${parameters._chat_history:-}{"role":"user","content":"${parameters.prompt}"}${parameters._interactions:-}]',
    ],
  ],
  optional: [
    ['top_p', '${parameters.top_p}'],
    ['reasoning_effort', '"${parameters.reasoning_effort}"'],
  ],
  tail: '${parameters.tool_configs:-}',
};

const PRESETS: Readonly<Record<string, ProviderPreset>> = { [OPENAI.name]: OPENAI };

/** Providers the API documents that have no preset here. */
export const KNOWN_PROVIDERS: readonly string[] = [OPENAI.name, 'bedrock/converse', 'gemini/v1beta/generatecontent'];

export function providerPreset(name: string): ProviderPreset | undefined {
  return Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
}

/** The request body template of a preset for the parameters at hand. */
export function presetBody(preset: ProviderPreset, parameters: Readonly<Record<string, string>>): string {
  const optional = preset.optional.filter(([name]) => Object.hasOwn(parameters, name));
  const members = [...optional, ...preset.body].map(([name, template]) => `"${name}":${template}`);
  return `{${members.join(',')}${preset.tail}}`;
}
