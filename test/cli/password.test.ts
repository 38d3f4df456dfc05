import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { newPassword, ownPassword } from '../../src/cli/password.ts';

/** A terminal as `process` shows it, with a person who types one line after each prompt. */
function terminal(...typed: string[]) {
  const input = new PassThrough();
  const modes: boolean[] = [];
  const stdin = Object.assign(input, { isTTY: true, setRawMode: (raw: boolean) => void modes.push(raw) });
  let shown = '';
  const stderr = new PassThrough().on('data', (text) => {
    shown += text;
    if (String(text).endsWith(': ')) setImmediate(() => input.write(typed.shift() ?? ''));
  });
  return { stdin, stdout: new PassThrough(), stderr, env: {}, shown: () => shown, modes };
}

describe('a password that is typed', () => {
  it('is asked twice and shown never', async () => {
    const typing = terminal('correct horse\r', 'correct horse\r');
    expect(await newPassword(typing, 'ann')).toBe('correct horse');
    expect(typing.shown()).toBe('New password of ann: \nThe same again: \n');
    expect(typing.stdout.readableLength).toBe(0);
    expect(typing.modes).toEqual([true, false, true, false]);
  });

  it('can be corrected', async () => {
    expect(await ownPassword(terminal('correcr\u007ft\r'), 'ann')).toBe('correct');
  });

  it.each([
    ['another the second time', ['one', 'two'].map((word) => `${word}\r`), 'not the same'],
    ['nothing', ['\r'], 'No password was given'],
    ['interrupted', ['corr\u0003'], 'No password was given'],
    ['ended', ['\u0004'], 'No password was given'],
  ])('is refused when it is %s', async (_name, typed, message) => {
    await expect(newPassword(terminal(...typed), 'ann')).rejects.toThrow(message);
  });
});
