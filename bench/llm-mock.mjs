// A fast chat-completions stand-in. While no tool result follows the last user message and a tool is offered whose name
// ends with get_current_weather, it calls that tool; otherwise it gives the final text.
import { serve } from './serve.mjs';

const TOOL = 'get_current_weather';
const ANSWER = 'The current weather in Seattle is partly cloudy with a temperature of 68F.';
let sequence = 0;

function reply(request) {
  const lastUser = request.messages.findLastIndex(({ role }) => role === 'user');
  const hasResult = request.messages.slice(lastUser + 1).some(({ role }) => role === 'tool');
  const offered = (request.tools ?? []).map((tool) => tool.function.name).find((name) => name.endsWith(TOOL));
  if (hasResult || !offered) return { message: { role: 'assistant', content: ANSWER }, finish_reason: 'stop' };
  sequence += 1;
  const call = { id: `call_${sequence}`, type: 'function' };
  return {
    message: {
      role: 'assistant',
      content: null,
      tool_calls: [{ ...call, function: { name: offered, arguments: '{"location":"Seattle"}' } }],
    },
    finish_reason: 'tool_calls',
  };
}

serve((_request, text) => {
  if (!text) return { body: { status: 'ok' } };
  const request = JSON.parse(text);
  const usage = { prompt_tokens: Math.ceil(text.length / 4), completion_tokens: 20 };
  return {
    body: {
      id: 'chatcmpl-bench',
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: request.model ?? 'bench',
      choices: [{ index: 0, ...reply(request) }],
      usage: { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens },
    },
  };
});
