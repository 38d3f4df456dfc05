import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { startApp } from '../support/build-app.ts';

const ROOT = new URL('../../', import.meta.url);

it('is what the routes say: `npm run openapi` writes it', async () => {
  const described = await startApp({ describe: true });
  const text = described.app.swagger({ yaml: true });
  await described.close();
  expect(readFileSync(new URL('openapi.yaml', ROOT), 'utf8')).toBe(text);

  const description = parse(text) as {
    paths: Record<string, Record<string, unknown>>;
    components: { schemas: object };
  };
  const names = Object.keys(description.components.schemas);
  expect(names).toContain('ConnectorDocument');
  expect(names.filter((name) => name.startsWith('schema-'))).toEqual([]);
  for (const path of ['/', '/healthz', '/_plugins/_ml/connectors/_create', '/_plugins/_agent/agents/{agent_id}']) {
    expect(Object.keys(description.paths)).toContain(path);
  }
  const references = [...text.matchAll(/#\/components\/schemas\/([\w-]+)/g)].map(([, name]) => name);
  expect(references.filter((name) => !names.includes(String(name)))).toEqual([]);
});
