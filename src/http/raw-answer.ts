/** A whole answer as octets, for where there is no reply object to send it with: envelope E1, then the end. */
export function rawAnswer(
  status: number,
  phrase: string,
  error: { readonly type: string; readonly reason: string },
  fields: readonly string[] = [],
): string {
  const body = JSON.stringify({ error: { root_cause: [error], ...error }, status });
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    'Content-Type: application/json; charset=UTF-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    ...fields,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}
