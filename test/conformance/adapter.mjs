import process from 'node:process';

/**
 * One client scenario of the conformance suite, played through the REST API of a running server (`TENON_URL`): a
 * connector to the address given last is created, everything the server behind it offers is listed and used once, and
 * the connector is deleted. The scenario's own wishes come as `MCP_CONFORMANCE_*`.
 */
const ML = `${process.env.TENON_URL}/_plugins/_ml`;
const address = new URL(process.argv.at(-1) ?? '');
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');

async function call(method, path, body) {
  const response = await fetch(`${ML}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  console.log(`${method} ${path}: ${response.status} ${JSON.stringify(answer).slice(0, 600)}`);
  return { ok: response.ok, status: response.status, answer };
}

/** A value for a member of an input schema that has to be there. */
function example(schema, root) {
  const { type, enum: values, default: given, const: only } = schema ?? {};
  if (given !== undefined) return given;
  if (only !== undefined) return only;
  if (Array.isArray(values)) return values[0];
  if (type === 'number' || type === 'integer') return 1;
  if (type === 'boolean') return true;
  if (type === 'array') return [];
  if (type === 'object') return exampleObject(schema, root);
  return 'text';
}

function exampleObject({ properties = {}, required = [] }, root) {
  return Object.fromEntries(required.map((name) => [name, example(properties[name], root)]));
}

/** The calls the scenario asks for, else one of each tool; the tools that compare schemas are given one. */
function callsOf(tools) {
  if (Array.isArray(context.toolCalls)) return context.toolCalls;
  const schemas = new Map(tools.map(({ name, input_schema: text }) => [name, JSON.parse(text)]));
  return [...schemas].map(([name, schema]) => {
    const values = exampleObject(schema, schema);
    const [focal] = [...schemas].filter(([other]) => other !== name);
    if ('schema' in (schema.properties ?? {}) && focal !== undefined) values.schema = focal[1];
    return { name, arguments: values };
  });
}

/** @returns whether the list came; what a call has to answer, the scenario itself says */
async function useEverything(id) {
  const listed = await call('GET', `${id}/tools`);
  if (!listed.ok) return false;
  for (const { name, arguments: values } of callsOf(listed.answer.tools)) {
    await call('POST', `${id}/tools/${encodeURIComponent(name)}/_execute`, { arguments: values });
  }
  const { answer: resources } = await call('GET', `${id}/resources`);
  for (const { uri } of resources.resources ?? []) await call('POST', `${id}/resources/_read`, { uri });
  const { answer: prompts } = await call('GET', `${id}/prompts`);
  for (const { name, arguments: wanted = [] } of prompts.prompts ?? []) {
    const values = Object.fromEntries(wanted.map((argument) => [argument.name, 'text']));
    await call('POST', `${id}/prompts/${encodeURIComponent(name)}/_get`, { arguments: values });
  }
  return true;
}

const created = await call('POST', '/connectors/_create', {
  name: context.name ?? process.env.MCP_CONFORMANCE_SCENARIO ?? 'conformance',
  version: 1,
  protocol: 'mcp_streamable_http',
  url: address.origin,
  parameters: { endpoint: `${address.pathname}${address.search}` },
  client_config: { elicitation: 'accept_defaults' },
});
if (!created.ok) process.exit(1);
const connector = `/connectors/${created.answer.connector_id}`;
const used = await useEverything(connector);
await call('GET', `${connector}/_status`);
await call('DELETE', connector);
process.exit(used ? 0 : 1);
