import { startScriptedModel } from './stand-in.ts';

/** Where the demo's agent gets its language model from. */
export interface Model {
  /** Said to the reader: a stand-in, or a real provider. */
  readonly note: string;
  readonly chatUrl: string;
  readonly modelName: string;
  readonly apiKey: string;
  /** Name of the environment variable that holds `apiKey` when the key is a real secret and must not be printed. */
  readonly secretVariable?: string;
  close(): Promise<void>;
}

/** The real provider when `OPENAI_API_KEY` is set, else the stand-in. */
export async function startModel(environment: Readonly<Record<string, string | undefined>>): Promise<Model> {
  const apiKey = environment.OPENAI_API_KEY;
  if (!apiKey) {
    const standIn = await startStandIn();
    return { ...standIn, note: `${standIn.note} (set OPENAI_API_KEY to ask a real model)` };
  }
  const base = (environment.OPENAI_BASE_URL ?? 'https://api.openai.com/v1').replace(/\/+$/, '');
  const modelName = environment.OPENAI_MODEL ?? 'gpt-4o-mini';
  return {
    note: `the real provider at ${new URL(base).host}, model ${modelName}, because OPENAI_API_KEY is set`,
    chatUrl: `${base}/chat/completions`,
    modelName,
    apiKey,
    secretVariable: 'OPENAI_API_KEY',
    close: async () => {},
  };
}

/** The scripted stand-in; `port` 0 takes a free one. */
export async function startStandIn(port = 0): Promise<Model> {
  const { chatUrl, close } = await startScriptedModel(port);
  return {
    note: 'a scripted stand-in that answers questions about the weather in a place',
    chatUrl,
    modelName: 'stand-in',
    apiKey: 'demo-model-key',
    close,
  };
}
