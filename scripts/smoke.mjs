import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

/** Starts the bundle of the current directory under the Node that runs this, uses it once, and stops it. */
const folder = mkdtempSync(join(tmpdir(), 'tenon-smoke-'));
const child = spawn(process.execPath, ['dist/main.js', 'serve'], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env: {
    PATH: process.env.PATH,
    HOME: folder,
    TENON_PORT: '0',
    TENON_DATA_DIR: join(folder, 'data'),
    TENON_KEY_FILE: join(folder, 'key', 'master.key'),
  },
});
const watchdog = setTimeout(() => child.kill('SIGKILL'), 60_000);
const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));

function expectEqual(what, actual, expected) {
  if (actual !== expected) throw new Error(`${what}: ${actual} in place of ${expected}`);
  console.log(`${what}: ${actual}`);
}

async function useOnce() {
  const url = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (part) => {
      text += part;
      const found = /serving on (http:\/\/[^"]+)/.exec(text)?.[1];
      if (found) resolve(found);
    });
    void ended.then(({ code }) => reject(new Error(`the server ended with ${code}:\n${text}`)));
  });
  expectEqual('GET /healthz', (await fetch(`${url}/healthz`)).status, 200);
  const created = await fetch(`${url}/_plugins/_ml/connectors/_create`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      name: 'smoke',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'https://mcp.example.com',
      credential: { token: 'smoke-token' },
      headers: { Authorization: 'Bearer ${credential.token}' },
    }),
  });
  expectEqual('POST connectors/_create', created.status, 200);
  const { connector_id: id } = await created.json();
  expectEqual('GET connector', (await fetch(`${url}/_plugins/_ml/connectors/${id}`)).status, 200);
  expectEqual('POST models/_predict', await predict(url), 200);
  child.kill('SIGTERM');
  const { code } = await ended;
  expectEqual('exit code', code, 0);
}

/** Sends one request out through a connector: the HTTP client of the bundle is not the one the tests run with. */
async function predict(url) {
  const remote = createServer((request, response) => {
    request.resume().on('end', () => response.setHeader('content-type', 'application/json').end('{"answer":42}'));
  });
  await new Promise((resolve) => remote.listen(0, '127.0.0.1', resolve));
  try {
    const post = (path, body) =>
      fetch(`${url}/_plugins/_ml/models/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const action = {
      action_type: 'predict',
      method: 'POST',
      url: `http://127.0.0.1:${remote.address().port}/`,
      request_body: '{}',
    };
    const connector = { name: 'smoke', version: 1, protocol: 'http', credential: { key: 'smoke' }, actions: [action] };
    const registered = await post('_register?deploy=true', { name: 'smoke', function_name: 'remote', connector });
    const { model_id: id } = await registered.json();
    return (await post(`${id}/_predict`, { parameters: {} })).status;
  } finally {
    remote.close();
    remote.closeAllConnections();
  }
}

try {
  console.log(`node ${process.version}`);
  await useOnce();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  clearTimeout(watchdog);
  child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
