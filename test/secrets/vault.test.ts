import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { newKeyText, readKey } from '../../src/secrets/master-key.ts';
import type { SealContext } from '../../src/secrets/types.ts';
import { createVault } from '../../src/secrets/vault.ts';

const master = readKey(newKeyText(), 'test');
const vault = createVault(master);
const context: SealContext = { owner: 'connector/c1', origins: ['https://a.example', 'https://b.example:8443'] };
const UNBOUND =
  'The sealed credential does not authenticate: it was sealed for another owner or other origins, or was changed';
const CHANGED = 'The sealed credential does not authenticate: its key part was changed';
const FORM = 'The sealed credential is not in a form this version reads';

function failure(sealed: string, opener = vault, where = context): string {
  try {
    opener.open(sealed, where);
  } catch (error) {
    expect((error as Error).constructor).toBe(Error);
    return (error as Error).message;
  }
  throw new Error('it opened');
}

describe('vault', () => {
  it('opens what it sealed, whatever the values', () => {
    const values = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), {
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(values, fc.string(), fc.array(fc.webUrl(), { maxLength: 4 }), (secrets, owner, origins) => {
        const opened = vault.open(vault.seal(secrets, { owner, origins }), { owner, origins });
        expect(Object.entries(opened)).toEqual(Object.entries(secrets));
      }),
    );
  });

  it('does not care about order or repetition of origins', () => {
    const sealed = vault.seal({ k: 'v' }, context);
    const shuffled = { ...context, origins: [...context.origins, ...context.origins].reverse() };
    expect(vault.open(sealed, shuffled)).toEqual({ k: 'v' });
    expect(vault.open(vault.seal({ k: 'v' }, shuffled), context)).toEqual({ k: 'v' });
  });

  it('writes version and key id in front, then 60 and 28 octets more than the plain text', () => {
    const [version, keyId, wrapped, values, ...more] = vault.seal({ k: 'v' }, context).split('.');
    expect([version, keyId, more]).toEqual(['v1', master.id, []]);
    expect(Buffer.from(wrapped ?? '', 'base64url')).toHaveLength(12 + 32 + 16);
    expect(Buffer.from(values ?? '', 'base64url')).toHaveLength(12 + '{"k":"v"}'.length + 16);
  });

  it('uses a new data key and new IVs for each call, and shows nothing of the values', () => {
    const sealed = Array.from({ length: 50 }, () => vault.seal({ token: 'CANARY-secret' }, context));
    const parts = sealed.flatMap((text) => text.split('.').slice(2));
    expect(new Set(parts).size).toBe(100);
    expect(new Set(parts.map((part) => part.slice(0, 16))).size).toBe(100);
    for (const text of sealed) {
      expect(text).not.toContain('CANARY');
      expect(Buffer.from(text.split('.')[3] ?? '', 'base64url').includes('CANARY')).toBe(false);
    }
  });

  it.each<[string, SealContext]>([
    ['another owner', { ...context, owner: 'connector/c2' }],
    ['the owner of another kind', { ...context, owner: 'model/c1' }],
    ['another origin', { ...context, origins: ['https://evil.example', 'https://b.example:8443'] }],
    ['one origin more', { ...context, origins: [...context.origins, 'https://evil.example'] }],
    ['one origin less', { ...context, origins: ['https://a.example'] }],
    ['another port', { ...context, origins: ['https://a.example', 'https://b.example'] }],
    ['no origin', { ...context, origins: [] }],
    ['origins run together', { ...context, origins: ['https://a.example,https://b.example:8443'] }],
    ['a part moved from origin to owner', { owner: 'connector/c1"', origins: context.origins }],
  ])('refuses %s', (_, where) => {
    expect(failure(vault.seal({ k: 'v' }, context), vault, where)).toBe(UNBOUND);
  });

  it('tells contexts apart whose parts read the same when joined', () => {
    const part = fc.string({ maxLength: 6 });
    const contexts = fc.record({ owner: part, origins: fc.array(part, { maxLength: 3 }) });
    const key = ({ owner, origins }: SealContext) => JSON.stringify([owner, [...new Set(origins)].sort()]);
    fc.assert(
      fc.property(contexts, contexts, (one, other) => {
        fc.pre(key(one) !== key(other));
        expect(failure(vault.seal({ k: 'v' }, one), vault, other)).toBe(UNBOUND);
      }),
    );
  });

  it('names both keys when it was sealed under another one', () => {
    const other = readKey(newKeyText(), 'test');
    expect(failure(createVault(other).seal({ k: 'v' }, context))).toBe(
      `The credential was sealed under master key ${other.id}, and the key in use is ${master.id}`,
    );
  });

  it('does not open under another key that claims the same id', () => {
    const impostor = createVault({ id: master.id, key: randomBytes(32) });
    expect(failure(vault.seal({ k: 'v' }, context), impostor)).toBe(CHANGED);
  });

  it('does not open a data key that was wrapped for another key id', () => {
    const renamed = createVault({ id: '0123456789abcdef', key: master.key });
    const sealed = vault.seal({ k: 'v' }, context).replace(master.id, '0123456789abcdef');
    expect(failure(sealed, renamed)).toBe(CHANGED);
  });

  it('does not repeat a key id that is none', () => {
    const sealed = vault.seal({ k: 'v' }, context);
    for (const id of ['<script>', 'A'.repeat(16), `${master.id}0`, `0${master.id}`]) {
      expect(failure(sealed.replace(master.id, id))).toBe(
        `The credential was sealed under master key of an unknown form, and the key in use is ${master.id}`,
      );
    }
  });

  it.each([
    ['', FORM],
    ['v1', FORM],
    [`v1.${master.id}`, FORM],
    [`v1.${master.id}.AAAA`, FORM],
    [`v1.${master.id}..`, CHANGED],
    [`v1.${master.id}.${'A'.repeat(36)}.AAAA`, CHANGED],
    [`v1.${master.id}.${Buffer.alloc(27).toString('base64url')}.AAAA`, CHANGED],
    [`v1.${master.id}.${Buffer.alloc(28).toString('base64url')}.AAAA`, CHANGED],
  ])('refuses the text %j', (text, message) => {
    expect(failure(text)).toBe(message);
  });

  it('refuses another version, a part more and a part less', () => {
    const sealed = vault.seal({ k: 'v' }, context);
    expect(failure(sealed.replace('v1.', 'v2.'))).toBe(FORM);
    expect(failure(`${sealed}.`)).toBe(FORM);
    expect(failure(`${sealed}.AAAA`)).toBe(FORM);
    expect(failure(sealed.slice(0, sealed.lastIndexOf('.')))).toBe(FORM);
    expect(failure(`${sealed.slice(0, sealed.lastIndexOf('.'))}.`)).toBe(UNBOUND);
  });

  it('refuses a sealed text in which one character differs', () => {
    const sealed = vault.seal({ k: 'CANARY-value' }, context);
    const letters = 'ABCXYZabcxyz0189-_.=+ /';
    fc.assert(
      fc.property(fc.nat(sealed.length - 1), fc.constantFrom(...letters), (at, letter) => {
        fc.pre(sealed[at] !== letter);
        const message = failure(sealed.slice(0, at) + letter + sealed.slice(at + 1));
        expect(message).not.toContain('CANARY');
      }),
      { numRuns: 400 },
    );
  });

  it('does not accept the data key of one text with the values of another', () => {
    const [version, id, wrapped] = vault.seal({ k: 'one' }, context).split('.');
    const values = vault.seal({ k: 'two' }, context).split('.')[3];
    expect(failure([version, id, wrapped, values].join('.'))).toBe(UNBOUND);
  });

  it('opens only a set of values', () => {
    const odd = vault.seal(['a'] as unknown as Record<string, string>, context);
    expect(failure(odd)).toBe('The sealed credential holds no set of values');
  });
});
