import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generate } from 'selfsigned';

export interface Pems {
  readonly cert: string;
  readonly key: string;
}

/** A CA that nobody but the test trusts. */
export async function privateAuthority(): Promise<Pems> {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'Test CA' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { cert, key };
}

/** A certificate for 127.0.0.1 and localhost. */
export async function serverCertificate(ca: Pems, name = 'server', valid: { until?: Date } = {}): Promise<Pems> {
  const { until } = valid;
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    algorithm: 'sha256',
    ca,
    ...(until === undefined ? {} : { notBeforeDate: new Date(until.getTime() - 86_400_000), notAfterDate: until }),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  });
  return { cert, key };
}

/** Writes `server.pem` and `server.key` into the folder. */
export async function writePair(folder: string, { cert, key }: Pems): Promise<{ cert: string; key: string }> {
  const paths = { cert: join(folder, 'server.pem'), key: join(folder, 'server.key') };
  await writeFile(paths.key, key, { mode: 0o600 });
  await writeFile(paths.cert, cert);
  return paths;
}
