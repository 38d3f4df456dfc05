import { type Command, InvalidArgumentError } from 'commander';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import { type CommandContext, type CommonOptions, segment, show, verb } from './context.ts';
import { CommandFailure, EXIT } from './failure.ts';
import { listed, plainText, table, text, time } from './output.ts';
import { allOfInput } from './password.ts';

interface StatusOptions extends CommonOptions {
  readonly probe?: boolean;
}

interface HistoryOptions extends CommonOptions {
  readonly size: string;
}

const CONNECTORS = '/_plugins/_ml/connectors';
const ACTIONS = {
  reconnect: 'open a connection again',
  disable: 'close a connection and open none until it is enabled',
  enable: 'allow connections again',
} as const;
/** Of what a local server wrote to its standard error, the newest. */
const SHOWN_LINES = 10;
/** Of the labels of a status. */
const WIDTH = 14;
const LONGEST_INPUT = 10_000_000;
/** Longer than any call the server waits for with its own defaults. */
const CALL_MS = 330_000;

export function addMcpVerbs(program: Command, context: CommandContext): void {
  const { api, terminal, say } = context;
  const mcp = program.command('mcp').description('Connections to MCP servers');
  const at = (id: string): string => `${CONNECTORS}/${segment(id)}`;

  verb(mcp, 'list', 'list MCP connectors with the state of their connections').action(
    async (options: CommonOptions) => {
      const answer = await api.request('GET', `${CONNECTORS}/_status`);
      show(context, options, answer, () =>
        table(
          ['ID', 'NAME', 'STATUS', 'SINCE', 'TOOLS', 'ORIGIN', 'TRANSPORT', 'ERROR'],
          objects(answer.connectors).map(row),
        ),
      );
    },
  );

  verb(mcp, 'status <connector>', 'show one connection')
    .option('--probe', 'ask the server now')
    .action(async (id: string, options: StatusOptions) => {
      const answer = await api.request('GET', `${at(id)}/_status${options.probe ? '?probe=true' : ''}`);
      show(context, options, answer, () => described(answer));
    });

  verb(mcp, 'history <connector>', 'show how a connection fared, newest first')
    .option('--size <number>', 'how many changes, at most 1000', '100')
    .action(async (id: string, options: HistoryOptions) => {
      const answer = await api.request('GET', `${at(id)}/_history?size=${segment(options.size)}`);
      const rows = () => objects(answer.transitions).map(change);
      show(context, options, answer, () => table(['TIME', 'FROM', 'TO', 'CAUSE', 'CODE', 'MESSAGE'], rows()));
    });

  for (const [action, description] of Object.entries(ACTIONS)) {
    verb(mcp, `${action} <connector>`, description).action(async (id: string, options: CommonOptions) => {
      const answer = await api.request('POST', `${at(id)}/_${action}`);
      show(context, options, answer, () => described(answer));
      if (answer.status === 'failed' || answer.status === 'auth_required') {
        throw new CommandFailure(`The connection of ${id} is ${answer.status} after ${action}`, EXIT.failed);
      }
    });
  }

  verb(mcp, 'tools <connector>', 'list the tools of a server').action(async (id: string, options: CommonOptions) => {
    const answer = await api.request('GET', `${at(id)}/tools`);
    const rows = () => objects(answer.tools).map(({ name, description }) => [text(name), text(description)]);
    show(context, options, answer, () => table(['NAME', 'DESCRIPTION'], rows()));
  });

  verb(
    mcp,
    'call <connector> <tool> [arguments]',
    'call a tool; arguments are a JSON object, or - for standard input',
  ).action(async (id: string, tool: string, given: string | undefined, options: CommonOptions) => {
    const source = given === '-' ? await allOfInput(terminal, LONGEST_INPUT) : (given ?? '{}');
    const body = { arguments: argumentsOf(source) };
    const answer = await api.request('POST', `${at(id)}/tools/${segment(tool)}/_execute`, { body, timeoutMs: CALL_MS });
    if (options.json) show(context, options, answer, () => '');
    else say(objects(answer.content).map(contentText).join('\n'));
    if (answer.isError === true) throw new CommandFailure(`The tool ${tool} reported an error`, EXIT.failed);
  });
}

function argumentsOf(source: string): JsonObject {
  const value = parseJson(source);
  if (isJsonObject(value)) return value;
  throw new InvalidArgumentError('The arguments of a tool have to be a JSON object');
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function row(report: JsonObject): string[] {
  const { connector_id: id, name, origin, transport, status, since, tool_count: tools, error } = report;
  const code = isJsonObject(error) ? text(error.code) : '';
  return [text(id), text(name), text(status), time(since), text(tools), text(origin), text(transport), code];
}

function change({ time: at, from, to, cause, code, message }: JsonObject): string[] {
  return [time(at), text(from), text(to), text(cause), text(code), text(message)];
}

function described(report: JsonObject): string {
  const { connector_id: id, name, status, since, last_success_time: success, protocol_version: protocol } = report;
  const error = isJsonObject(report.error) ? report.error : undefined;
  const tools = objects(report.tools);
  const lines: (readonly [string, string])[] = [
    ['connector', `${text(id)} (${text(name)})`],
    ['status', `${text(status)} since ${time(since)}`],
    ['origin', `${text(report.origin)}, ${text(report.transport)}`],
    ['last success', time(success)],
    ['protocol', text(protocol)],
    ['tools', listed(tools.filter((tool) => !isLeftOut(tool)).map((tool) => tool.name ?? ''))],
    ['error', error === undefined ? '' : `${text(error.code)}: ${text(error.message)}`],
    ['remedy', text(error?.remedy)],
    ['next attempt', time(error?.next_retry_time)],
    ['breaker', breaker(report.breaker)],
    ['left out', reasons(tools.filter(isLeftOut))],
    ['renamed', reasons(tools.filter((tool) => !isLeftOut(tool)))],
    ['warnings', Array.isArray(report.warnings) ? report.warnings.map(text).join('\n') : ''],
    ['agents', listed(objects(report.agents).map((agent) => agent.name ?? ''))],
    ['stderr', Array.isArray(report.stderr) ? report.stderr.slice(-SHOWN_LINES).map(text).join('\n') : ''],
    ['actions', listed(report.actions)],
  ];
  const present = lines.filter(([, value]) => value !== '');
  return present.map(([label, value]) => `${`${label}:`.padEnd(WIDTH)}${indented(value)}`).join('\n');
}

/** Nothing that a server wrote begins a line, where it could look like one of ours. */
function indented(value: string): string {
  return plainText(value).replaceAll('\n', `\n${' '.repeat(WIDTH)}`);
}

function breaker(value: JsonValue | undefined): string {
  if (!isJsonObject(value) || value.state === 'closed') return '';
  const retry = value.retry_time === undefined ? '' : `, one try is let through at ${time(value.retry_time)}`;
  return `${text(value.state)} after ${text(value.failures)} failures in a row${retry}`;
}

function isLeftOut({ state }: JsonObject): boolean {
  return state === 'left_out';
}

/** Tools of which something is to be said, one a line. */
function reasons(tools: readonly JsonObject[]): string {
  const told = tools.filter(({ reason }) => reason !== undefined);
  return told.map(({ name, reason }) => `${text(name)}: ${text(reason)}`).join('\n');
}

/** Text as it is; of anything else what it is. */
function contentText(content: JsonObject): string {
  if (content.type === 'text') return plainText(text(content.text));
  return `[${[text(content.type), text(content.mimeType)].filter((part) => part !== '').join(' ')}; --json shows it]`;
}
