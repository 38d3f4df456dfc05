// The agent turn with nothing around it, on the MCP SDK: what the server is compared with.
//   POST / {"message", "session"?} -> {"session", "answer"}
// One turn = load the conversation from memory, ask the model, call the tools it names, ask again, remember, answer.
//   node bare-loop.mjs --llm URL --mcp URL [--thin]       --thin: the SDK over thin-fetch.mjs, not over Node's fetch
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { parseArgs } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Pool } from 'undici';
import { serve } from './serve.mjs';
import { makeThinFetch } from './thin-fetch.mjs';

setMaxListeners(100); // the SDK gives one abort signal to all requests of a transport
const WINDOW = 20;
const MAX_ROUNDS = 5;
const { values: args } = parseArgs({
  options: { llm: { type: 'string' }, mcp: { type: 'string' }, thin: { type: 'boolean', default: false } },
});

const mcpUrl = new URL(args.mcp);
const client = new Client({ name: 'bare-loop', version: '1.0.0' });
const transport = args.thin ? { fetch: makeThinFetch(mcpUrl.origin) } : undefined;
await client.connect(new StreamableHTTPClientTransport(mcpUrl, transport));
const tools = (await client.listTools()).tools.map(({ name, description, inputSchema }) => ({
  type: 'function',
  function: { name, description, parameters: inputSchema },
}));

const llmUrl = new URL(args.llm);
const llm = new Pool(llmUrl.origin, { connections: 64 });

async function complete(messages) {
  const answer = await llm.request({
    path: llmUrl.pathname,
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer bench' },
    body: JSON.stringify({ model: 'bench', messages, tools }),
  });
  if (answer.statusCode !== 200) throw new Error(`model: ${answer.statusCode} ${await answer.body.text()}`);
  return (await answer.body.json()).choices[0].message;
}

const memory = new Map();

async function turn({ message, session = randomUUID() }) {
  const history = memory.get(session) ?? [];
  const user = { role: 'user', content: message };
  const messages = [{ role: 'system', content: 'You are a helpful assistant.' }, ...history, user];
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const reply = await complete(messages);
    messages.push(reply);
    if (!reply.tool_calls?.length) {
      memory.set(session, [...history, user, { role: 'assistant', content: reply.content }].slice(-WINDOW));
      return { session, answer: reply.content };
    }
    for (const { id, function: call } of reply.tool_calls) {
      const { content } = await client.callTool({ name: call.name, arguments: JSON.parse(call.arguments) });
      messages.push({ role: 'tool', tool_call_id: id, content: content.map(({ text = '' }) => text).join('') });
    }
  }
  throw new Error(`no final answer after ${MAX_ROUNDS} rounds`);
}

serve(async (_request, text) => ({ body: text ? await turn(JSON.parse(text)) : { status: 'ok' } }));
