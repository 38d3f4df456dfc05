import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import { createLogger, type Logger } from '../../src/telemetry/logger.ts';
import { createRedactor, type Redactor } from '../../src/telemetry/redactor.ts';

const CANARY = 'CANARY "A1" ü/?';

function capture(): {
  log: Logger;
  redactor: Redactor;
  lines: () => Record<string, unknown>[];
  text: () => string;
} {
  const written: string[] = [];
  const redactor = createRedactor();
  redactor.taint([CANARY]);
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void written.push(line) } });
  return { log, redactor, lines: () => written.map((line) => JSON.parse(line)), text: () => written.join('') };
}

describe('the logger', () => {
  it.each(['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const)('lets no secret out at %s', (level) => {
    const { log, lines, text } = capture();
    const error = Object.assign(new Error(`refused ${CANARY}`, { cause: new Error(CANARY) }), {
      code: 'E1',
      options: { headers: { 'x-strange-name': CANARY } },
    });
    log[level]({ err: error, value: CANARY, deep: { list: [CANARY] }, [CANARY]: 1 }, `text ${CANARY}`);
    log[level]({ encoded: encodeURIComponent(CANARY), octets: Buffer.from(CANARY).toString('base64') }, 'encoded');
    log[level]({ body: JSON.stringify({ key: CANARY }) }, 'nested');
    log.child({ secret: CANARY })[level]('child');
    for (const spelling of [CANARY, 'A1', encodeURIComponent(CANARY), Buffer.from(CANARY).toString('base64')]) {
      expect(text()).not.toContain(spelling);
    }
    expect(lines()).toHaveLength(4);
  });

  it.each([
    '"level":"',
    '","n',
    'level',
    'info',
    'connector',
    '\\nabc',
    'true',
    '1234',
    '[redacted]',
    '{"a":',
    ':{"a',
    '\\",""',
  ])('writes lines of JSON with their structure whole while %j is a secret', (secret) => {
    const { log, lines, redactor } = capture();
    redactor.taint([secret]);
    log.info({ action: 'connector_create', n: 1234, ok: true, body: `{"a":"\nabc ${secret}"}` }, 'connector created');
    const [line] = lines();
    expect(line).toMatchObject({
      level: 'info',
      n: 1234,
      ok: true,
      action: 'connector_create',
      msg: 'connector created',
    });
    expect(line?.['time']).toMatch(/^\d{4}-\d\d-\d\dT/);
    expect(line?.['body']).toContain('[redacted]');
  });

  it('keeps type, message, stack and code of an error and its causes, nothing else', () => {
    const { log, lines } = capture();
    const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED', socket: { remote: 1 } });
    log.error({ err: Object.assign(new TypeError('fetch failed', { cause }), { request: { headers: {} } }) });
    const err = lines()[0]?.['err'] as Record<string, Record<string, unknown>>;
    expect(Object.keys(err).sort()).toEqual(['cause', 'message', 'stack', 'type']);
    expect(Object.keys(err['cause'] ?? {}).sort()).toEqual(['code', 'message', 'stack', 'type']);
  });

  it('shows no member that is named like a secret', () => {
    const { log, text } = capture();
    log.info({ authorization: 'Bearer unknown', server: { headers: { a: 'unknown' }, credential: 'unknown' } }, 'x');
    expect(text()).not.toContain('unknown');
  });

  it('shows the path of a request without its query', () => {
    const { log, lines } = capture();
    log.info({ req: { method: 'GET', url: '/callback?code=unknown', headers: {} } });
    expect(lines()[0]?.['req']).toEqual({ method: 'GET', path: '/callback' });
  });

  it('writes to a file of its own as well, redacted and private', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenon-log-'));
    const redactor = createRedactor();
    redactor.taint([CANARY]);
    const file = join(folder, 'logs', 'tenon.log');
    const standard = { write: () => true };
    createLogger({ level: 'error', redactor, file, stream: standard }).error(`no ${CANARY}`);
    const text = readFileSync(file, 'utf8');
    expect(text).toContain('no [redacted]');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    rmSync(folder, { recursive: true });
  });

  it.each([`${import.meta.filename}/tenon.log`, '/proc/nope/deeper/tenon.log'])(
    'says that %s cannot be opened',
    (file) => {
      const open = (): unknown => createLogger({ level: 'info', redactor: createRedactor(), file });
      expect(open).toThrow(StartupError);
      expect(open).toThrow(/TENON_LOG_FILE/);
    },
  );
});
