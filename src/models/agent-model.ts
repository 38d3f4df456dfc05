import { INVALID_ARGUMENT } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { type JsonObject, parameterTexts } from '../json.ts';
import { KNOWN_PROVIDERS, type ProviderPreset, presetBody, providerPreset } from '../llm/providers.ts';
import { optionalObject, optionalText } from './fields.ts';
import type { Models } from './service.ts';

export interface AgentModelRequest {
  readonly principal: Principal;
  readonly agentName: string;
  /** The `model` block of an agent registration. */
  readonly model: JsonObject;
}

export interface AgentModel {
  readonly modelId: string;
  readonly llmInterface: string;
  /** What of `model_parameters` belongs to the agent (`max_iteration`, `system_prompt`, …): its `llm.parameters`. */
  readonly parameters: Readonly<Record<string, string>>;
}

const MAX_RETRY_TIMES = 3;

/**
 * Makes the connector and the remote model that the `model` block of an agent describes: one model with an inline
 * connector, whose credential goes when the model goes.
 * @throws INVALID_ARGUMENT naming the member that is missing, wrong, or a provider that is not served yet
 */
export async function registerFromAgent(
  models: Pick<Models, 'register'>,
  { principal, agentName, model }: AgentModelRequest,
): Promise<AgentModel> {
  const preset = presetOf(model);
  const modelName = optionalText(model, 'model_id');
  if (modelName === undefined || modelName.trim() === '') throw new INVALID_ARGUMENT('model.model_id is required');
  const credential = credentialOf(model, preset);
  const given = parameterTexts(optionalObject(model, 'model_parameters') ?? {});
  const connectorNames = new Set([...Object.keys(preset.defaults), ...preset.optional.map(([name]) => name)]);
  const parts = Object.entries(given);
  const own = Object.fromEntries(parts.filter(([name]) => connectorNames.has(name)));
  const parameters = { ...preset.defaults, ...own, model: modelName };
  const { model_id } = await models.register(principal, {
    name: `${agentName} ${modelName}`,
    function_name: 'remote',
    description: `Model of agent ${agentName}`,
    connector: {
      name: `${agentName} ${modelName}`,
      description: `Connector of agent ${agentName}`,
      version: '1',
      protocol: 'http',
      parameters,
      credential,
      client_config: { max_retry_times: MAX_RETRY_TIMES },
      actions: [
        {
          action_type: 'predict',
          method: 'POST',
          url: preset.url,
          headers: { ...preset.headers },
          request_body: presetBody(preset, parameters),
        },
      ],
    },
  });
  return {
    modelId: model_id,
    llmInterface: preset.name,
    parameters: Object.fromEntries(parts.filter(([name]) => !connectorNames.has(name))),
  };
}

function presetOf(model: JsonObject): ProviderPreset {
  const provider = optionalText(model, 'model_provider')?.trim().toLowerCase() ?? '';
  const preset = providerPreset(provider);
  if (preset !== undefined) return preset;
  if (KNOWN_PROVIDERS.includes(provider)) {
    throw new INVALID_ARGUMENT(
      `model.model_provider ${provider} is not served yet. Use openai/v1/chat/completions, or register a connector and a model and name it in llm.model_id.`,
    );
  }
  throw new INVALID_ARGUMENT(`model.model_provider must be one of [${KNOWN_PROVIDERS.join(', ')}]`);
}

function credentialOf(model: JsonObject, { credentialKey }: ProviderPreset): JsonObject {
  const value = optionalObject(model, 'credential')?.[credentialKey];
  if (typeof value !== 'string' || value === '') {
    throw new INVALID_ARGUMENT(`model.credential.${credentialKey} is required`);
  }
  return { [credentialKey]: value };
}
