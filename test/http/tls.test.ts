import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { selfSignedTls, type Tls, tlsFromFiles } from '../../src/http/tls.ts';
import { createLogger, type Logger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { type Pems, privateAuthority, serverCertificate, writePair } from '../support/certificates.ts';

let ca: Pems;
let first: Pems;
let second: Pems;
let folder: string;
const lines: string[] = [];
const closing: (() => void)[] = [];
let log: Logger;

beforeAll(async () => {
  ca = await privateAuthority();
  [first, second] = await Promise.all([serverCertificate(ca, 'first'), serverCertificate(ca, 'second')]);
  folder = await mkdtemp(join(tmpdir(), 'tenon-tls-'));
  const stream = { write: (line: string) => void lines.push(line) };
  log = createLogger({ level: 'info', redactor: createRedactor(), stream });
});
afterEach(() => {
  for (const close of closing.splice(0)) close();
  lines.length = 0;
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function serve(tls: Tls): Promise<Server> {
  const server = createServer({ ...tls.options }, (_request, response) => response.end('ok')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const unfollow = tls.follow(server);
  closing.push(() => {
    unfollow();
    server.close();
    server.closeAllConnections();
  });
  return server;
}

/** The name of the certificate that a new connection is shown, checked against the CA. */
async function shownBy(server: Server): Promise<string> {
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', ca: ca.cert });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

async function until(happened: () => boolean | Promise<boolean>): Promise<void> {
  for (let waited = 0; waited < 10_000; waited += 20) {
    if (await happened()) return;
    await sleep(20);
  }
  throw new Error(`it did not happen; the log says:\n${lines.join('')}`);
}

const logged = (text: string) => () => lines.some((line) => line.includes(text));

describe('certificate files', () => {
  it('are put in force when both have changed', async () => {
    const server = await serve(await tlsFromFiles(await writePair(folder, first), { log, everyMs: 20 }));
    expect(await shownBy(server)).toBe('first');
    await writePair(folder, second);
    await until(logged('TLS certificate renewed'));
    expect(await shownBy(server)).toBe('second');
  });

  it('that cannot be used leave the pair before them in force, until they are put right', async () => {
    const paths = await writePair(folder, first);
    const server = await serve(await tlsFromFiles(paths, { log, everyMs: 20 }));
    await writeFile(paths.cert, second.cert);
    await until(logged('is not the key of the first certificate'));
    expect(await shownBy(server)).toBe('first');
    await rm(paths.key);
    await until(logged('cannot be read (ENOENT)'));
    expect(await shownBy(server)).toBe('first');
    await writeFile(paths.key, second.key);
    await until(async () => (await shownBy(server)) === 'second');
    expect(lines.filter((line) => line.includes('"level":"error"'))).toHaveLength(2);
    expect(lines.join('')).not.toContain('PRIVATE KEY');
  });

  it('are followed through links', async () => {
    const [before, after] = [await mkdtemp(join(folder, 'a-')), await mkdtemp(join(folder, 'b-'))];
    await writePair(before, first);
    await writePair(after, second);
    const link = join(folder, 'current');
    await symlink(before, link);
    const files = { cert: join(link, 'server.pem'), key: join(link, 'server.key') };
    const server = await serve(await tlsFromFiles(files, { log, everyMs: 20 }));
    await symlink(after, `${link}.next`);
    await rename(`${link}.next`, link);
    await until(async () => (await shownBy(server)) === 'second');
  });

  it('say who they are for and until when, and that they have expired', async () => {
    await tlsFromFiles(await writePair(folder, first), { log });
    expect(lines.join('')).toMatch(/"names":"DNS:localhost, IP Address:127\.0\.0\.1".*SHA-256 [0-9A-F:]{95}/);
    const past = await serverCertificate(ca, 'past', { until: new Date(Date.now() - 86_400_000) });
    await tlsFromFiles(await writePair(folder, past), { log });
    expect(lines.at(-1)).toMatch(/"level":"warn".*has expired/);
  });

  const encrypted = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;

  it.each<[string, (paths: { cert: string; key: string }) => Promise<void>, RegExp]>([
    ['no certificate', ({ cert }) => rm(cert), /^TENON_TLS_CERT: \/.* cannot be read \(ENOENT\)$/],
    ['no key', ({ key }) => rm(key), /^TENON_TLS_KEY: \/.* cannot be read \(ENOENT\)$/],
    ['no PEM', ({ cert }) => writeFile(cert, 'hello'), /^TENON_TLS_CERT: .* does not begin with a certificate/],
    ['a key in place of it', ({ cert }) => writeFile(cert, first.key), /^TENON_TLS_CERT: .* does not begin with/],
    ['an empty key', ({ key }) => writeFile(key, ''), /^TENON_TLS_KEY: .* is no private key in PEM form$/],
    ['a key with a passphrase', ({ key }) => writeFile(key, encrypted), /^TENON_TLS_KEY: .* protected by a passphrase/],
    ['another key', ({ key }) => writeFile(key, second.key), /^TENON_TLS_KEY: .* is not the key of .*TENON_TLS_CERT/],
  ])('refuse a start with %s', async (_name, spoil, message) => {
    const paths = await writePair(folder, first);
    await spoil(paths);
    const refusal = await tlsFromFiles(paths, { log }).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(refusal?.name).toBe('StartupError');
    expect(refusal?.message).toMatch(message);
  });
});

describe('a certificate for a first try', () => {
  it('is for this machine alone, new each time, and trusted by those who are given it', async () => {
    const [one, other] = [await selfSignedTls('10.1.2.3', { log }), await selfSignedTls('0.0.0.0', { log })];
    expect(one.options.cert).not.toBe(other.options.cert);
    expect(lines[0]).toMatch(
      /DNS:localhost, IP Address:127\.0\.0\.1, IP Address:0:0:0:0:0:0:0:1,.*IP Address:10\.1\.2\.3/,
    );
    expect(lines[1]).not.toContain('0.0.0.0');
    const server = await serve(one);
    const { port } = server.address() as AddressInfo;
    const trusting = connect({ port, host: '127.0.0.1', ca: one.options.cert });
    await once(trusting, 'secureConnect');
    expect(trusting.getPeerX509Certificate()?.fingerprint256).toBe(/SHA-256 ([0-9A-F:]+)/.exec(lines[0] ?? '')?.[1]);
    trusting.destroy();
    const [refusal] = (await once(connect({ port, host: '127.0.0.1' }), 'error')) as [NodeJS.ErrnoException];
    expect(refusal.code).toBe('DEPTH_ZERO_SELF_SIGNED_CERT');
  });
});
