import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import closeWithGrace from 'close-with-grace';
import packageJson from '../package.json' with { type: 'json' };
import { buildApp } from './app.ts';
import { type Config, readConfig } from './config.ts';
import { StartupError } from './errors.ts';
import { openStore } from './services.ts';
import { migrate } from './store/migrator.ts';
import { createLogger } from './telemetry/logger.ts';
import { createRedactor } from './telemetry/redactor.ts';

const USAGE = `Usage: tenon [verb]

  serve      serve the API (the default); --tls-self-signed: with a certificate made for this run
  migrate    bring the schema of the database up to date
  openapi    write openapi.yaml into the current directory

Verbs that talk to the running server at TENON_URL, each with its own --help:

  users      list, add, remove users; set passwords
  keys       create, list, revoke API keys
  roles      list and show roles
  mcp        connections to MCP servers: list, status, history, reconnect, disable, enable, tools, call

  --help     print this
  --version  print the version

Settings are environment variables named TENON_*; the README lists them.
`;

const CLOSE_DEADLINE_MS = 9000;

interface Flags {
  readonly tlsSelfSigned?: boolean;
}

async function serve(config: Config, { tlsSelfSigned = false }: Flags): Promise<void> {
  const { app, services, log, close } = await buildApp(config, { tlsSelfSigned });
  const { port } = config;
  const secure = tlsSelfSigned || config.tls !== undefined;
  // Fastify binds localhost twice and shows one server: a renewed certificate would not reach the other.
  const host = secure && config.host === 'localhost' ? '127.0.0.1' : config.host;
  const listenTextResolver = (address: string): string => `tenon ${packageJson.version} serving on ${address}`;
  await app.listen({ host, port, listenTextResolver }).catch(async (error: NodeJS.ErrnoException) => {
    await close();
    const remedy = error.code === 'EADDRINUSE' ? '; set TENON_PORT to another port' : '';
    throw new StartupError(`Cannot listen on ${host}:${port}: ${error.message}${remedy}`);
  });
  // One forgotten promise must not take everybody's agents down; an exception nobody caught does.
  process.on('unhandledRejection', (err) => log.error({ err }, 'a promise was rejected and nobody waited for it'));
  closeWithGrace({ delay: CLOSE_DEADLINE_MS, logger: false, skip: ['unhandledRejection'] }, async ({ signal, err }) => {
    if (err) log.fatal({ err }, 'unexpected failure');
    log.info(`closing${signal ? ` on ${signal}` : ''}`);
    await close();
    log.info('closed');
  });
  if (services.identity.authenticator.mode() === 'open') {
    log.warn(
      'open mode: no authentication is configured, so only this machine is answered; ' +
        'set TENON_ADMIN_PASSWORD or TENON_API_KEY, or add a user with `tenon users add`',
    );
  } else log.info('callers are authenticated; connectors reach loopback only where a trusted list names it');
}

async function migrateStore(config: Config): Promise<void> {
  const log = createLogger({ level: config.logLevel, redactor: createRedactor(), file: config.logFile });
  const database = await openStore(config, log);
  try {
    const applied = await migrate(database, { mode: 'migrate' });
    process.stdout.write(applied.length === 0 ? 'The schema is up to date\n' : `Applied ${applied.join(', ')}\n`);
  } finally {
    await database.close();
  }
}

/** The description needs the routes, not the data: it is taken from a server on an empty store of its own. */
async function describe(config: Config): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-openapi-'));
  try {
    const keyFile = join(folder, 'key', 'master.key');
    const own = {
      dataDir: join(folder, 'data'),
      keyFile,
      keystore: 'file',
      databaseUrl: undefined,
      tls: undefined,
      configFile: join(folder, 'tenon.json'),
      globalConfigFile: join(folder, 'global.json'),
      namedConfigFiles: [],
    } as const;
    const { app, close } = await buildApp({ ...config, ...own, logLevel: 'silent' }, { describe: true });
    await writeFile('openapi.yaml', app.swagger({ yaml: true }));
    await close();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const VERBS: Readonly<Record<string, (config: Config, flags: Flags) => Promise<void>>> = {
  serve,
  migrate: migrateStore,
  openapi: describe,
};

const HELP: ReadonlySet<string> = new Set(['--help', '-h', 'help']);

/** Verbs of the command line, which is loaded for them alone. */
const REMOTE_VERBS: ReadonlySet<string> = new Set(['users', 'keys', 'roles', 'mcp']);

async function run(verb = 'serve', ...rest: readonly string[]): Promise<void> {
  if (REMOTE_VERBS.has(verb)) {
    const { runCommand } = await import('./cli/run.ts');
    process.exitCode = await runCommand([verb, ...rest], process);
    return;
  }
  if ([verb, ...rest].some((word) => HELP.has(word))) return void process.stdout.write(USAGE);
  if (verb === '--version' || verb === '-v') return void process.stdout.write(`${packageJson.version}\n`);
  const work = VERBS[verb];
  if (!work) throw new StartupError(`There is no verb '${verb}'; \`tenon --help\` lists them`);
  await work(readConfig(process.env), flagsOf(verb, rest));
}

function flagsOf(verb: string, rest: readonly string[]): Flags {
  const options = verb === 'serve' ? { 'tls-self-signed': { type: 'boolean' } as const } : {};
  try {
    const { values } = parseArgs({ args: [...rest], options });
    return { tlsSelfSigned: values['tls-self-signed'] === true };
  } catch (error) {
    throw new StartupError(`${(error as Error).message}; \`tenon --help\` lists what there is`);
  }
}

try {
  await run(...process.argv.slice(2));
} catch (error) {
  process.stderr.write(
    error instanceof StartupError ? `tenon: ${error.message}\n` : `tenon: ${(error as Error).stack}\n`,
  );
  process.exitCode = 1;
}
