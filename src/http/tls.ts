import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { createSecureContext, type SecureVersion, type Server } from 'node:tls';
import { StartupError } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What a server needs to speak TLS. */
export interface Tls {
  readonly options: TlsOptions;
  /** Puts renewed files in force, for connections from then on, until the function it returns is called. */
  follow(server: Pick<Server, 'setSecureContext'>): () => void;
}

export interface TlsOptions {
  /** PEM: the server's own certificate, then those between it and the CA. */
  readonly cert: string;
  readonly key: string;
  readonly minVersion: SecureVersion;
  readonly handshakeTimeout: number;
}

/** Paths of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

export interface TlsDeps {
  readonly log: Logger;
  /** How often the files are looked at. */
  readonly everyMs?: number;
}

const EVERY_MS = 2000;
const PROTOCOL = { minVersion: 'TLSv1.2', handshakeTimeout: 10_000 } as const;

/**
 * TLS with the certificate and key of two files, followed while the server runs: files that cannot be used are logged
 * and leave the pair before them in force.
 * @throws StartupError naming the variable and what is wrong with its file
 */
export async function tlsFromFiles(files: TlsFiles, { log, everyMs = EVERY_MS }: TlsDeps): Promise<Tls> {
  const stamp = await stampOf(files);
  const options = await load(files);
  report(log, options.cert, 'TLS certificate in force');

  return {
    options,
    follow(server) {
      let inForce = options;
      let tried = stamp;
      let seen = stamp;
      let looking = false;

      async function renew(): Promise<void> {
        const next = await load(files);
        if (next.cert === inForce.cert && next.key === inForce.key) return;
        server.setSecureContext(next);
        inForce = next;
        report(log, next.cert, 'TLS certificate renewed');
      }

      /** Two files are not replaced at once: they are read when they have not changed between two looks. */
      async function look(): Promise<void> {
        const now = await stampOf(files);
        const settled = now === seen;
        seen = now;
        if (!settled || now === tried) return;
        tried = now;
        await renew().catch((err: Error) =>
          log.error(`the TLS files have changed and cannot be used, the pair before stays in force: ${err.message}`),
        );
      }

      const timer = setInterval(() => {
        if (looking) return;
        looking = true;
        void look().finally(() => {
          looking = false;
        });
      }, everyMs);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}

/** TLS with a certificate that is made now, for this machine's names and `host`, and kept in memory alone. */
export async function selfSignedTls(host: string, { log }: Pick<TlsDeps, 'log'>): Promise<Tls> {
  const { default: selfsigned } = await import('selfsigned');
  const named = [hostname(), host].filter((name) => /^[a-z0-9.:-]+$/i.test(name) && !/^[0.:]+$/.test(name));
  const names = [...new Set(['localhost', '127.0.0.1', '::1', ...named])];
  const { cert, private: key } = await selfsigned.generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: names.map((name) => (isIP(name) ? { type: 7, ip: name } : { type: 2, value: name })),
      },
    ],
  });
  report(
    log,
    cert,
    'self-signed TLS certificate, for a first try: it changes with every start and no client trusts it',
  );
  return { options: { cert, key, ...PROTOCOL }, follow: () => () => undefined };
}

async function load(files: TlsFiles): Promise<TlsOptions> {
  const [cert, key] = [await read('TENON_TLS_CERT', files.cert), await read('TENON_TLS_KEY', files.key)];
  const certificate = certificateOf(cert, files.cert);
  if (!certificate.checkPrivateKey(keyOf(key, files.key))) {
    throw new StartupError(
      `TENON_TLS_KEY: ${files.key} is not the key of the first certificate in TENON_TLS_CERT: ${files.cert}`,
    );
  }
  const options = { cert, key, ...PROTOCOL };
  try {
    createSecureContext(options);
  } catch (error) {
    throw new StartupError(`TENON_TLS_CERT: ${files.cert} cannot be used for TLS (${(error as Error).message})`);
  }
  return options;
}

async function read(variable: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new StartupError(`${variable}: ${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function certificateOf(pem: string, path: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch {
    throw new StartupError(`TENON_TLS_CERT: ${path} does not begin with a certificate in PEM form`);
  }
}

function keyOf(pem: string, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    const problem = /\bENCRYPTED\b/.test(pem)
      ? 'is protected by a passphrase: give the key without one'
      : 'is no private key in PEM form';
    throw new StartupError(`TENON_TLS_KEY: ${path} ${problem}`);
  }
}

/** Changes whenever one of the files does, also when a link to it is pointed elsewhere. */
async function stampOf({ cert, key }: TlsFiles): Promise<string> {
  const stamps = [cert, key].map(async (path) => {
    const found = await stat(path).catch(() => undefined);
    return found === undefined ? 'none' : [found.ino, found.size, found.mtimeMs, found.ctimeMs].join(':');
  });
  return (await Promise.all(stamps)).join(' ');
}

function report(log: Logger, pem: string, message: string): void {
  const { subject, subjectAltName, validTo, fingerprint256 } = new X509Certificate(pem);
  const expired = Date.parse(validTo) < Date.now();
  const fields = { subject, names: subjectAltName, validTo, sha256: fingerprint256 };
  if (expired) log.warn(fields, `${message}, but it has expired: clients refuse it`);
  else log.info(fields, `${message} (SHA-256 ${fingerprint256})`);
}
