// A fetch over one undici pool, for code that takes a `fetch` option: JSON bodies are read at once, and no request
// object, chain of abort signals or web stream is made for them.
import { Pool } from 'undici';

const BODYLESS = [204, 205, 304];

export function makeThinFetch(origin) {
  const pool = new Pool(origin, { connections: 64 });
  return async (input, init = {}) => {
    const target = new URL(input);
    const answer = await pool.request({
      path: target.pathname + target.search,
      method: init.method ?? 'GET',
      headers: init.headers instanceof Headers ? Object.fromEntries(init.headers) : init.headers,
      body: init.body ?? null,
      signal: init.signal,
    });
    const streams = String(answer.headers['content-type'] ?? '').includes('text/event-stream');
    const body = streams ? answer.body : await answer.body.text();
    return new Response(BODYLESS.includes(answer.statusCode) || body === '' ? null : body, {
      status: answer.statusCode,
      headers: answer.headers,
    });
  };
}
