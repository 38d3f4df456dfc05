import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeclaredServers, readDeclaredServers } from '../../src/connectors/declared/declared-servers.ts';
import { StartupError } from '../../src/errors.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

let folder: string;
let lines: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-files-'));
  lines = [];
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const path = (name: string): string => join(folder, name);

function read(required: readonly string[] = []): Promise<DeclaredServers> {
  const redactor = createRedactor();
  const stream = { write: (line: string) => void lines.push(line) };
  return readDeclaredServers({
    files: [
      { path: path('global.json'), variable: 'TENON_GLOBAL_CONFIG', required: required.includes('global') },
      { path: path('tenon.json'), variable: 'TENON_CONFIG', required: required.includes('project') },
    ],
    variables: () => undefined,
    redactor,
    log: createLogger({ level: 'trace', redactor, stream }),
  });
}

const remote = (host: string) => ({ url: `https://${host}/mcp` });
const urls = (servers: DeclaredServers) => servers.all.map(({ id }) => `${id} ${String(servers.document(id)?.url)}`);

async function refusal(text: string): Promise<string> {
  await writeFile(path('tenon.json'), text);
  const error = await read().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(StartupError);
  return (error as Error).message;
}

describe('the layers', () => {
  it('may all be missing', async () => {
    expect((await read()).all).toEqual([]);
  });

  it('are laid over each other: an entry of the project replaces the whole global one of its name', async () => {
    const global = { mcp: { a: { ...remote('global'), headers: { 'X-A': '1' } }, b: remote('global') } };
    await writeFile(path('global.json'), JSON.stringify(global));
    await writeFile(path('tenon.json'), JSON.stringify({ mcp: { c: remote('project'), a: remote('project') } }));
    const servers = await read();
    expect(urls(servers)).toEqual(['a https://project/mcp', 'b https://global/mcp', 'c https://project/mcp']);
    expect(servers.document('a')?.headers).toEqual({});
  });

  it('hold both maps; of one name in both that of mcp is used, with a warning', async () => {
    const content = { mcpServers: { a: remote('other'), b: remote('other') }, mcp: { a: remote('own') } };
    await writeFile(path('tenon.json'), JSON.stringify(content));
    expect(urls(await read())).toEqual(['a https://own/mcp', 'b https://other/mcp']);
    expect(lines.join()).toContain('mcp and mcpServers both name a');
  });

  it.each([
    ['global', 'TENON_GLOBAL_CONFIG', 'global.json'],
    ['project', 'TENON_CONFIG', 'tenon.json'],
  ])('have to be there where a variable names them: %s', async (layer, variable, file) => {
    await expect(read([layer])).rejects.toThrow(`${variable}: ${path(file)}: there is no such file`);
    await expect(read([layer])).rejects.toBeInstanceOf(StartupError);
  });

  it('refuse the start when one is there and cannot be read', async () => {
    await mkdir(path('tenon.json'));
    await expect(read()).rejects.toThrow(`TENON_CONFIG: ${path('tenon.json')}: it cannot be read (EISDIR)`);
  });

  it('may start with a byte order mark', async () => {
    await writeFile(path('tenon.json'), `\ufeff${JSON.stringify({ mcp: { a: remote('own') } })}`);
    expect(urls(await read())).toEqual(['a https://own/mcp']);
  });

  it('are warned of when every user of the machine can write them', async () => {
    await writeFile(path('tenon.json'), '{}');
    await read();
    expect(lines).toEqual([]);
    await chmod(path('tenon.json'), 0o666);
    await read();
    expect(lines.join()).toContain(`${path('tenon.json')} can be written by every user`);
  });

  it('name in the log what they hold and nobody reads', async () => {
    await writeFile(path('tenon.json'), JSON.stringify({ $schema: 'x', mcp: {}, mpc: {}, theme: 'dark' }));
    await read();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('mpc,theme');
  });
});

describe('a file that is no JSON object of servers', () => {
  const secret = 'sk-hidden-in-the-file';

  it.each([
    [`{\n  "a": ${secret}\n}`, 2, 8],
    [`{\n  "a": "${secret}\n}`, 2, 8],
    [`{\n  // ${secret}\n  "mcp": {}\n}`, 2, 3],
    [`{"mcp": {},\n}`, 2, 1],
    [`{"mcp": {\n"a": {}\n"b": {}}`, 3, 1],
    [`{"mcp": [1,\n2,]}`, 2, 3],
    [`{"mcp" {}}`, 1, 8],
    [`{mcp: {}}`, 1, 2],
    [`{"mcp": {"a": "\\x"}}`, 1, 15],
    [`{"mcp": 01}`, 1, 10],
    ['{}\n{}', 2, 1],
    ['{"mcp":\n{"a": {}', 2, 9],
    ['', 1, 1],
  ])('is refused with its line and nothing of its text: %j', async (text, line, column) => {
    const message = await refusal(text);
    expect(message).toMatch(new RegExp(`tenon\\.json is not valid JSON: .*\\(line ${line}, column ${column}\\)$`));
    expect(message).not.toContain(secret);
  });

  it('says what the usual mistakes are', async () => {
    expect(await refusal('{ // the servers\n}')).toContain('it has no comments');
    expect(await refusal('{"mcp": {')).toContain('it ends too early');
    expect(await refusal('{"mcp": {},}')).toContain('behind the comma');
    expect(await refusal('{"mcp": "a\nb"}')).toContain('a string is not closed in its line');
  });

  it.each([
    ['[]', 'must hold one JSON object'],
    ['null', 'must hold one JSON object'],
    ['{"mcp": []}', 'mcp must be an object of servers by their names'],
    ['{"mcpServers": "x"}', 'mcpServers must be an object of servers by their names'],
  ])('is refused: %s', async (text, message) => {
    expect(await refusal(text)).toBe(
      `${path('tenon.json')}${text.startsWith('{') ? ':' : ''} ${message}${text.startsWith('{') ? '' : ', such as {"mcp":{}}'}`,
    );
  });
});
