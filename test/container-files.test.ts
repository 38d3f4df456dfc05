import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../src/config.ts';

const ROOT = new URL('../', import.meta.url);
const text = (name: string): string => readFileSync(new URL(name, ROOT), 'utf8');
/** Instructions of each stage, in their order. */
const STAGES = text('Dockerfile')
  .replaceAll('\\\n', ' ')
  .split(/^(?=FROM )/m)
  .slice(1)
  .map((stage) => stage.split('\n'));
const instructions = (name: string, stages = STAGES): string[] =>
  stages.flat().flatMap((line) => (line.startsWith(`${name} `) ? line.slice(name.length + 1).trim() : []));
const last = STAGES.slice(-1);
const stage = (name: string): string[][] => STAGES.filter(([from]) => from?.endsWith(` AS ${name}`));

describe('the image', () => {
  it('copies only what is there and what .dockerignore lets through', () => {
    const copied = instructions('COPY')
      .filter((line) => !line.startsWith('--from'))
      .flatMap((line) => line.split(/\s+/).slice(0, -1));
    expect(copied.length).toBeGreaterThan(5);
    const allowed = text('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    for (const path of copied) {
      expect(existsSync(new URL(path, ROOT)), path).toBe(true);
      expect(allowed).toContain(path.replace(/^\.\//, ''));
    }
  });
  it('takes from the build what the bundle does not hold: SQLite for each processor, and nothing that it would need', () => {
    const folder = 'node_modules/better-sqlite3-napi/';
    const taken = instructions('COPY', last)
      .filter((line) => line.startsWith('--from=build'))
      .flatMap((line) => line.split(' ').slice(1, -1))
      .map((path) => path.replace('/app/', ''));
    expect(taken.filter((path) => path !== 'dist').sort()).toEqual(
      ['LICENSE', 'lib', 'package.json', 'prebuilds/linux-arm64.node', 'prebuilds/linux-x64.node'].map(
        (name) => folder + name,
      ),
    );
    for (const path of taken.filter((path) => path !== 'dist'))
      expect(existsSync(new URL(path, ROOT)), path).toBe(true);
    const required = readdirSync(new URL(`${folder}lib`, ROOT), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.js'))
      .flatMap((name) =>
        [...text(`${folder}lib/${name}`).matchAll(/require\('([^']+)'\)/g)].map(([, module]) => module),
      );
    expect(required.filter((module = '') => !module.startsWith('.') && !isBuiltin(module))).toEqual([]);
  });
  it('runs as a user without rights, on the current long-term release, with a health check', () => {
    expect(instructions('FROM').every((line) => line.startsWith('node:24-'))).toBe(true);
    expect(instructions('USER', last)).toEqual(['node']);
    expect(instructions('HEALTHCHECK', last)[0]).toContain('/healthz');
    expect(instructions('ENTRYPOINT', last)).toEqual(['["node", "dist/main.js"]']);
    expect(instructions('CMD', last)).toEqual(['["serve"]']);
  });
  it('compiles nothing, and installs all that the bundle is made of: esbuild and pg have optional parts', () => {
    expect(instructions('RUN', stage('build'))).toEqual(['npm ci --ignore-scripts', 'node scripts/build.mjs']);
  });
  it('has a second target, the everything server in the release that the tests use', () => {
    const { devDependencies } = JSON.parse(text('package.json')) as { devDependencies: Record<string, string> };
    const name = '@modelcontextprotocol/server-everything';
    const target = stage('everything');
    expect(instructions('RUN', target)[0]).toContain(`${name}@${devDependencies[name]}`);
    expect(instructions('USER', target)).toEqual(['node']);
    const [, program = ''] = JSON.parse(instructions('CMD', target)[0] ?? '[]') as string[];
    expect(existsSync(new URL(program, ROOT)), program).toBe(true);
  });
  it('keeps data and key apart', () => {
    expect(JSON.parse(instructions('VOLUME')[0] ?? '[]')).toEqual(['/var/lib/tenon/data', '/var/lib/tenon-key']);
  });
});

describe('the composition', () => {
  const { services, volumes, networks } = parse(text('compose.yaml')) as {
    services: Record<string, { environment: Record<string, string>; volumes: string[]; networks: string[] }>;
    volumes: object;
    networks: object;
  };
  it('joins both servers by one network, with data and key on volumes of their own', () => {
    expect(services['tenon']?.networks).toEqual(services['everything']?.networks);
    expect(Object.keys(networks)).toEqual(services['tenon']?.networks);
    expect(services['tenon']?.volumes.map((mount) => mount.split(':')[0])).toEqual(Object.keys(volumes));
  });
  it('builds both from here, so that a start needs no registry', () => {
    expect(services['tenon']).toMatchObject({ build: '.' });
    expect(services['everything']).toMatchObject({ build: { context: '.', target: 'everything' } });
    expect(stage('everything')).toHaveLength(1);
  });
  it('needs a key, and trusts exactly the MCP server it names', () => {
    const environment = services['tenon']?.environment ?? {};
    expect(environment['TENON_API_KEY']).toMatch(/^\$\{TENON_API_KEY:\?/);
    const resolved = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [name, value.replaceAll('$$', '$')]),
    );
    const config = readConfig({ ...resolved, TENON_API_KEY: 'a-key' });
    expect(config.host).toBe('0.0.0.0');
    const pattern = new RegExp(`^(?:${config.trustedPrivateEndpoints?.[0]})$`);
    expect(pattern.test('http://everything:3001/mcp')).toBe(true);
    expect(pattern.test('http://everything:3001')).toBe(true);
    expect(pattern.test('http://everything:30010/mcp')).toBe(false);
  });
});
