import type { Screen } from './screen.ts';

export type Json = { readonly [member: string]: unknown };

export interface Client {
  /** Shows the request as a `curl` command, sends it, shows the answer and returns it. @throws Error unless 200 */
  call(method: string, path: string, body?: Json): Promise<Json>;
}

/** `secret`: a value never printed; the command shows how to take it from its environment variable instead. */
export function createClient(base: string, screen: Screen, secret?: { value: string; variable: string }): Client {
  return {
    async call(method, path, body) {
      const url = `${base}${path}`;
      screen.command(curlCommand(method, url, body, secret));
      const started = performance.now();
      const answer = await fetch(url, {
        method,
        ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      const value = JSON.parse(text) as Json;
      screen.answer(answer.status, performance.now() - started, value);
      if (answer.status !== 200) throw new Error(`${method} ${path} answered ${answer.status}`);
      return value;
    },
  };
}

function curlCommand(method: string, url: string, body?: Json, secret?: { value: string; variable: string }): string {
  const verb = method === 'GET' ? '' : `-X ${method} `;
  if (!body) return `curl -s ${verb}'${url}'`;
  const json = JSON.stringify(body, null, 2);
  const send = `curl -s ${verb}'${url}' -H 'Content-Type: application/json' --data-binary @-`;
  if (!secret || !json.includes(secret.value)) return `${send} <<'JSON'\n${json}\nJSON`;
  const shown = json.replaceAll(secret.value, `<${secret.variable}>`);
  return `sed "s|<${secret.variable}>|$${secret.variable}|" <<'JSON' | ${send}\n${shown}\nJSON`;
}
