import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type App, type AppOverrides, buildApp } from '../../src/app.ts';
import { type Config, readConfig } from '../../src/config.ts';

export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The JSON of the answer; `{}` when it has none. */
  readonly body: Record<string, unknown>;
}

export interface TestApp extends Pick<App, 'app' | 'services'> {
  readonly url: string;
  readonly port: number;
  readonly config: Config;
  /** Every log line so far, as it was written, from level trace. */
  readonly lines: string[];
  /** `path` starts at the root; a body that is no text is sent as JSON. */
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<TestAnswer>;
  /** Stops the server and removes its folder. */
  close(): Promise<void>;
}

export interface StartOptions extends AppOverrides {
  readonly config?: Partial<Config>;
  /** Keep using this folder; it is not removed at the end then. */
  readonly folder?: string;
}

/** The whole server on a free port of 127.0.0.1, with a data folder and a key file of its own. */
export async function startApp({ config: given, folder: kept, ...overrides }: StartOptions = {}): Promise<TestApp> {
  const folder = kept ?? (await mkdtemp(join(tmpdir(), 'tenon-test-')));
  const lines: string[] = [];
  const config: Config = {
    ...readConfig({}),
    port: 0,
    dataDir: join(folder, 'data'),
    keyFile: join(folder, 'key', 'master.key'),
    configFile: join(folder, 'tenon.json'),
    globalConfigFile: join(folder, 'global.json'),
    logLevel: 'trace',
    ...given,
  };
  const logStream = { write: (line: string): void => void lines.push(line) };
  const { app, services, close } = await buildApp(config, { logStream, ...overrides });
  const url = await app.listen({ host: config.host, port: config.port });
  return {
    app,
    services,
    url,
    port: Number(new URL(url).port),
    config,
    lines,
    request: (method, path, body, headers) => send(`${url}${path}`, method, body, headers),
    async close() {
      await close();
      if (kept === undefined) await rm(folder, { recursive: true, force: true });
    },
  };
}

async function send(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<TestAnswer> {
  const response = await fetch(url, {
    method,
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = (response.headers.get('content-type') ?? '').startsWith('application/json') && text !== '';
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: json ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
}
