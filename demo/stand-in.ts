import { LLMock } from '@copilotkit/aimock';

/** What the stand-in says to a question that it has no script for. */
export const OFF_SCRIPT =
  "I am a scripted stand-in for a language model. I can only ask the weather tool about a place: What's the weather like in Seattle?";

interface ChatMessage {
  readonly role: string;
  readonly content: Parts;
}
type Parts = string | readonly { readonly text?: string }[] | null | undefined;
type Reply = { content: string } | { toolCalls: { name: string; arguments: string }[] };

/**
 * A scripted model on loopback, `port` 0 takes a free one. A question that names a place it answers with a call of the
 * weather tool and then with what the tool said, any other with `OFF_SCRIPT`.
 */
export async function startScriptedModel(port: number): Promise<{ chatUrl: string; close(): Promise<void> }> {
  const server = new LLMock({ host: '127.0.0.1', port });
  server.on({}, ({ messages, tools = [] }) =>
    reply(
      messages,
      tools.map((tool) => tool.function.name),
    ),
  );
  await server.start();
  return {
    chatUrl: `${server.url}/v1/chat/completions`,
    close: async () => {
      await server.stop();
    },
  };
}

function reply(messages: readonly ChatMessage[], offered: readonly string[]): Reply {
  const last = messages.at(-1);
  if (last?.role === 'tool') return { content: `The weather tool says: ${plainText(last.content)}` };
  const question = messages.findLast(({ role }) => role === 'user')?.content;
  const location = placeIn(plainText(question));
  if (location === undefined) return { content: OFF_SCRIPT };
  const name = offered.find((tool) => tool.endsWith('get_current_weather'));
  if (name === undefined) return { content: 'I have no tool that knows the weather: none of my tools can be reached.' };
  return { toolCalls: [{ name, arguments: JSON.stringify({ location }) }] };
}

/** `in Seattle`, `about New York`: words with capitals after a preposition. */
function placeIn(question: string): string | undefined {
  return /\b(?:in|for|at|of|about|near)\s+(\p{Lu}[\p{L}'’.-]*(?:\s+\p{Lu}[\p{L}'’.-]*)*)/u
    .exec(question)?.[1]
    ?.replace(/[.-]+$/, '');
}

/** The text of a message: plain, text parts, or such parts written as JSON. */
function plainText(content: Parts): string {
  if (typeof content !== 'string') return (content ?? []).map((part) => part.text ?? '').join('');
  try {
    const parts: unknown = JSON.parse(content);
    return Array.isArray(parts) ? plainText(parts) : content;
  } catch {
    return content;
  }
}
