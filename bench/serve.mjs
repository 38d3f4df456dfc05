// One small JSON server on loopback, as the stand-ins and the bare loop need it.
import http from 'node:http';

/**
 * Serves `answer(request, text)` -> `{ status?, headers?, body? }` and prints `{"url"}` as its first line. An answer
 * `"reset"` ends the connection in its place. Connections without a request are ended after `keepAliveMs`.
 */
export function serve(answer, { keepAliveMs = 120_000 } = {}) {
  const server = http.createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (part) => {
      text += part;
    });
    request.on('end', async () => {
      try {
        const given = await answer(request, text);
        if (given === 'reset') return request.socket.resetAndDestroy();
        const { status = 200, headers = {}, body } = given;
        const payload = body === undefined ? '' : JSON.stringify(body);
        const type = payload && { 'content-type': 'application/json' };
        response.writeHead(status, { ...type, 'content-length': Buffer.byteLength(payload), ...headers });
        response.end(payload);
      } catch (error) {
        response.writeHead(500, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ error: String(error) }));
      }
    });
  });
  server.keepAliveTimeout = keepAliveMs;
  server.listen(0, '127.0.0.1', () =>
    console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })),
  );
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(0));
  return server;
}
