import { LLMock } from '@copilotkit/aimock';

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
  if (!apiKey) return startStandIn();
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

/**
 * A scripted model on loopback: it answers a question about the weather with a call of the weather tool, then repeats
 * what the tool said. `port` 0 takes a free one.
 */
export async function startStandIn(port = 0): Promise<Model> {
  const standIn = new LLMock({ host: '127.0.0.1', port });
  standIn.on({ hasToolResult: false, userMessage: /weather/i }, ({ tools = [] }) => {
    const name = tools.map((tool) => tool.function.name).find((offered) => offered.endsWith('get_current_weather'));
    if (!name) return { content: 'I have no tool that knows the weather.' };
    return { toolCalls: [{ name, arguments: JSON.stringify({ location: 'Seattle' }) }] };
  });
  standIn.on({ hasToolResult: true }, ({ messages }) => {
    const result = messages.findLast((message) => message.role === 'tool')?.content;
    return { content: `Here is the current weather. ${resultText(result)}` };
  });
  await standIn.start();
  return {
    note: 'a scripted stand-in on loopback (set OPENAI_API_KEY to ask a real model)',
    chatUrl: `${standIn.url}/v1/chat/completions`,
    modelName: 'stand-in',
    apiKey: 'demo-model-key',
    close: async () => {
      await standIn.stop();
    },
  };
}

type Parts = string | readonly { text?: string }[] | null | undefined;

/** The text of a tool message: plain, or the text parts of an MCP `content` array written as JSON. */
function resultText(content: Parts): string {
  if (typeof content !== 'string') return (content ?? []).map((part) => part.text ?? '').join('');
  try {
    const parts: unknown = JSON.parse(content);
    return Array.isArray(parts) ? resultText(parts) : content;
  } catch {
    return content;
  }
}
