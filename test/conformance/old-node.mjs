import { register } from 'node:module';

/**
 * Lets the conformance suite load on a Node without `fs.globSync`, which only commands of its own authors use.
 * For `node --import`.
 */
const hooks = `
  export async function load(url, context, next) {
    const loaded = await next(url, context);
    if (!url.endsWith('@modelcontextprotocol/conformance/dist/index.js')) return loaded;
    const source = String(loaded.source);
    const name = /\\bglobSync as (\\w+),/.exec(source)?.[1];
    if (name === undefined) return loaded;
    return { ...loaded, source: source.replace(/\\bglobSync as \\w+,/, '') + ';var ' + name + '=()=>[];' };
  }
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
