import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createClient } from './client.ts';
import { type Model, startModel, startStandIn } from './model.ts';
import { watchParents } from './parents.ts';
import { build, type Running, requireFree, startEverything, startTenon } from './processes.ts';
import { createScreen } from './screen.ts';
import { walk } from './walk.ts';
import { startWeatherServer, type WeatherServer } from './weather-server.ts';

const WEATHER_KEY = 'demo-weather-key-123';
const FIRST_PORT = 3101;
const USAGE = `Usage: npm run demo [-- options]

  (none)          the whole walk, with a server of its own; leaves nothing behind
  --keep          the same, and everything stays up until Ctrl-C
  --peers         only what the walk of the README connects to: a weather server (${FIRST_PORT}), the everything server
                  (${FIRST_PORT + 1}) and a scripted stand-in for a language model (${FIRST_PORT + 2}), until Ctrl-C
  --port <first>  with --peers: the first of the three ports
  --help          print this

The whole walk asks a real model when OPENAI_API_KEY is set; OPENAI_BASE_URL and OPENAI_MODEL choose which. Elsewhere a
scripted stand-in answers.`;

const screen = createScreen((line) => console.log(line), process.stdout.isTTY === true && !process.env.NO_COLOR);
const cleanups: (() => Promise<void>)[] = [];
const interrupted = new AbortController();
const interruption = new Promise<never>((_, reject) => {
  interrupted.signal.addEventListener('abort', () => reject(interrupted.signal.reason));
});
let unread = false;
process.stdout.on('error', () => {
  unread = true;
  interrupted.abort();
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());

interface Peers {
  readonly weather: WeatherServer;
  readonly everything: Running;
  readonly model: Model;
}

/** Remembers how to undo what was started, also when it is only ready after the reader has pressed Ctrl-C. */
async function started<T>(starting: Promise<T>, undo: (what: T) => Promise<void>): Promise<T> {
  const what = await starting;
  cleanups.unshift(() => undo(what));
  interrupted.signal.throwIfAborted();
  return what;
}

async function startPeers(ports: { weather: number; everything: number }, model: () => Promise<Model>): Promise<Peers> {
  const close = (server: { close(): Promise<void> }) => server.close();
  const weather = await started(startWeatherServer({ apiKey: WEATHER_KEY, port: ports.weather }), close);
  const everything = await started(startEverything(ports.everything), (server) => server.stop());
  const peers = { weather, everything, model: await started(model(), close) };
  screen.say(`Weather server:    ${weather.url}/mcp, wants the demo key ${WEATHER_KEY} in X-Weather-API-Key`);
  screen.say(`Everything server: ${everything.url}/mcp`);
  screen.say(`Language model:    ${peers.model.chatUrl}, ${peers.model.note}`);
  return peers;
}

async function wholeWalk(keep: boolean): Promise<void> {
  screen.title('Tenon: an agent answers a question with a tool of an MCP server');
  screen.say('Building the server …');
  await build();
  interrupted.signal.throwIfAborted();
  const home = await started(mkdtemp(join(tmpdir(), 'tenon-demo-')), (path) => rm(path, { recursive: true }));
  const peers = await startPeers({ weather: 0, everything: 0 }, () => startModel(process.env));
  const tenon = await started(startTenon(home), (server) => server.stop());
  screen.say(`Tenon:             ${tenon.url}, with a fresh data directory and key file below ${home}`);
  const { model } = peers;
  const secret = model.secretVariable ? { value: model.apiKey, variable: model.secretVariable } : undefined;
  const walking = walk({
    screen,
    client: createClient(tenon.url, screen, secret),
    model,
    weather: peers.weather,
    weatherKey: WEATHER_KEY,
    everythingUrl: peers.everything.url,
    dataDir: join(home, 'data'),
    log: tenon.output,
  });
  await Promise.race([walking, interruption]);
  if (!keep) return;
  screen.say('\nEverything but the weather server stays up, so that the commands can be tried. Ctrl-C stops it.');
  await interruption;
}

async function peersOnly(first: number): Promise<void> {
  const [weather, everything, model] = [first, first + 1, first + 2];
  await requireFree([weather, everything, model]);
  await startPeers({ weather, everything }, () => startStandIn(model));
  screen.say('Ctrl-C stops them.');
  await interruption;
}

function given<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new Error(`${(error as Error).message}; --help lists the options`);
  }
}

async function run(): Promise<void> {
  const options = {
    help: { type: 'boolean', short: 'h' },
    keep: { type: 'boolean' },
    peers: { type: 'boolean' },
    port: { type: 'string' },
  } as const;
  const {
    help = false,
    keep = false,
    peers = false,
    port = String(FIRST_PORT),
  } = given(() => parseArgs({ options }).values);
  if (help) return screen.say(USAGE);
  const first = Number(port);
  if (!Number.isInteger(first) || first < 1 || first > 65_533) throw new Error('--port is a number from 1 to 65533');
  await watchParents(() => interrupted.abort());
  await (peers ? peersOnly(first) : wholeWalk(keep));
  screen.title('\nDone. Stopping the servers and removing the temporary directory.');
}

try {
  interruption.catch(() => {});
  await run();
} catch (error) {
  if (!interrupted.signal.aborted)
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : error}`);
  process.exitCode = interrupted.signal.aborted ? 130 : 1;
  if (unread) process.exitCode = 0;
}
for (const cleanup of cleanups) {
  await cleanup().catch((error: unknown) => {
    console.error(`Cleaning up: ${error instanceof Error ? error.message : error}`);
    process.exitCode ||= 1;
  });
}
