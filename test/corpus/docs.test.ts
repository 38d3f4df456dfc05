import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ACTIONS } from '../../src/mcp/connection/report.ts';
import { ConnectionStatusReport } from '../../src/schemas/connections.ts';
import { DEFINITIONS } from '../../src/settings/definitions.ts';

const DOCS = new URL('../../docs/', import.meta.url);
const SOURCES = new URL('../../src/', import.meta.url);
const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** Every document that may name a route. */
function documents(): string[] {
  const names = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', ...readdirSync(DOCS).map((name) => `docs/${name}`)];
  return names.filter((name) => name.endsWith('.md'));
}

function withoutComments(source: string): string {
  return source.replace(/^\s*\/\*\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** First cells of every table row of a document that are one piece of code. */
function codeCells(markdown: string): string[] {
  return [...markdown.matchAll(/^\| `([^`]+)` \|/gm)].map(([, cell]) => cell ?? '');
}

function section(markdown: string, heading: string): string {
  const [, after = ''] = markdown.split(`\n## ${heading}\n`);
  return after.split('\n## ')[0] ?? '';
}

describe('the documents name what the code knows', () => {
  it('has one row for every cause code, and no row for a code that does not exist', () => {
    const [, union = ''] = read('src/errors.ts').match(/export type CauseCode =([^;]+);/) ?? [];
    const codes = [...union.matchAll(/'([a-z_]+)'/g)].map(([, code]) => code);
    expect(codes.length).toBeGreaterThan(20);
    expect(codeCells(section(read('docs/status-and-errors.md'), 'Cause codes')).sort()).toEqual(codes.sort());
  });

  it('gives every cause code a meaning, what happens next, and a remedy', () => {
    const rows = section(read('docs/status-and-errors.md'), 'Cause codes').match(/^\| `.+$/gm) ?? [];
    for (const row of rows) expect(row.split(' | ').filter((cell) => cell.trim().length > 3)).toHaveLength(4);
  });

  it('describes every state of a connection', () => {
    const [, union = ''] = read('src/mcp/types.ts').match(/export type ConnectionStatus =([^;]+);/) ?? [];
    const states = [...union.matchAll(/'([a-z_]+)'/g)].map(([, state]) => state);
    const [table = ''] = section(read('docs/status-and-errors.md'), 'Status of a connection').split('\nMembers');
    expect(codeCells(table).sort()).toEqual(states.sort());
  });

  it('gives each state the actions that the status lists for it', () => {
    const [table = ''] = section(read('docs/status-and-errors.md'), 'Status of a connection').split('\nMembers');
    const rows = [...table.matchAll(/^\| `([a-z_]+)` \| [^|]+ \| ([^|]+) \|$/gm)];
    const told = rows.map(([, status, cell = '']) => [
      status,
      [...cell.matchAll(/`([a-z]+)`/g)].map(([, name]) => name),
    ]);
    expect(Object.fromEntries(told)).toEqual(ACTIONS);
  });

  it('explains every member of the status of a connection', () => {
    const chapter = section(read('docs/status-and-errors.md'), 'Status of a connection');
    const names = Object.keys(ConnectionStatusReport.properties);
    expect(names.length).toBeGreaterThan(10);
    for (const name of names) expect(chapter, name).toContain(`\`${name}\``);
  });

  it('names only routes that exist', () => {
    const { paths } = parse(read('openapi.yaml')) as { paths: Record<string, object> };
    const form = (path: string) => path.replace(/\{[^}]*\}|<[^>]*>/g, '{}');
    const served = new Set(
      Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${form(path)}`),
      ),
    );
    const texts = documents().map(read).join('\n');
    const named = [...texts.matchAll(/`(GET|POST|PUT|DELETE) (?:\$B)?(\/[^\s`?]*)/g)].map(
      ([, method, path = '']) => `${method} ${form(path)}`,
    );
    expect(named.length).toBeGreaterThan(5);
    for (const route of named) expect(served, route).toContain(route);
  });

  it('writes the paths of routes from their beginning', () => {
    const { paths } = parse(read('openapi.yaml')) as { paths: Record<string, object> };
    const form = (path: string) => path.replace(/\{[^}]*\}|<[^>]*>/g, '{}');
    const served = new Set(Object.keys(paths).map(form));
    const ends = new Set(
      [...served].flatMap((path) => {
        const segments = path.split('/').slice(1);
        return segments.slice(1, -1).map((_, from) => segments.slice(from + 1).join('/'));
      }),
    );
    let found = 0;
    for (const from of documents()) {
      for (const [, written = ''] of read(from).matchAll(/`(?:(?:GET|POST|PUT|DELETE) )?(?:\$B)?([/a-z_][^\s`?]*)/g)) {
        const path = form(written);
        if (served.has(path)) found += 1;
        expect(ends.has(path.replace(/^\//, '')), `${from}: ${written} is the end of a path`).toBe(false);
      }
    }
    expect(found).toBeGreaterThan(80);
  });

  it('gives remedies with the paths of routes from their beginning', () => {
    const sources = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
    const named = sources.flatMap((name) =>
      [...withoutComments(read(`src/${name}`)).matchAll(/\b(?:GET|POST|PUT|DELETE) (\/[a-z_][^\s'`"?]*)/g)].map(
        ([, path = '']) => [name, path] as const,
      ),
    );
    expect(named.length).toBeGreaterThan(10);
    const roots = /^\/(_plugins|_cluster|healthz|readyz|metrics|openapi\.yaml)/;
    for (const [name, path] of named) expect(path, name).toMatch(roots);
  });

  it('has every environment variable in the settings table of the README or among the reserved ones, once', () => {
    const names = [...new Set(read('src/config.ts').match(/\bTENON_[A-Z_]+/g))];
    expect(names.length).toBeGreaterThan(10);
    const settings = section(read('README.md'), 'Settings');
    const table = codeCells(settings).filter((name) => name.startsWith('TENON_'));
    const [reserved = ''] = settings.match(/^Reserved, without effect[^.]*\./m) ?? [];
    const set = [...reserved.matchAll(/`(TENON_[A-Z_]+)`/g)].map(([, name]) => name);
    expect([...table, ...set].sort()).toEqual(names.sort());
  });

  it('gives cluster settings that exist, with the defaults they have', () => {
    const [, table = ''] = section(read('README.md'), 'Settings').split('| key | default | meaning |');
    const rows = [...table.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)];
    expect(rows.length).toBeGreaterThan(5);
    for (const [, key, shown = ''] of rows) {
      const definition = DEFINITIONS.get(`plugins.ml_commons.${key}`);
      const [, text] = /^`(true|false|allow|\d+)`$/.exec(shown) ?? [];
      const value = { 'any public https': undefined, '`[]`': [] }[shown] ?? text;
      expect(definition && { [String(key)]: definition.default }).toEqual({ [String(key)]: value });
    }
  });

  it('has one row in the list of routes for every route of openapi.yaml, and no other', () => {
    const { paths } = parse(read('openapi.yaml')) as { paths: Record<string, object> };
    const served = Object.entries(paths)
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`))
      .filter((route) => !route.startsWith('HEAD ') && !route.includes(' /_plugins/_agent/'));
    const listed = [...read('docs/api.md').matchAll(/^\| ([A-Z, ]+) \| `(\/[^`]*)` \|/gm)].flatMap(
      ([, methods = '', path = '']) => methods.split(', ').map((method) => `${method} ${path}`),
    );
    expect(listed.sort()).toEqual(served.sort());
  });

  it('links only to files that exist', () => {
    for (const from of ['README.md', 'CONTRIBUTING.md', 'docs/api.md']) {
      for (const [, target = ''] of read(from).matchAll(/\]\(([^):#]+)\)/g)) {
        const path = new URL(target, new URL(`../../${from}`, import.meta.url));
        expect(existsSync(path), `${from} -> ${target}`).toBe(true);
      }
    }
  });

  it('gives the two commands of the README as they are written in package.json', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const documents = `${read('README.md')}${read('CONTRIBUTING.md')}`;
    const named = [...documents.matchAll(/npm run ([a-z:]+)/g)].map(([, name]) => name ?? '');
    expect(named).toContain('demo');
    for (const name of named) expect(scripts, name).toHaveProperty(name);
    expect(read('README.md')).toContain('npm ci && npm run demo');
    expect(read('README.md')).toContain('npm ci && npm test');
  });
});
