import { describe, expect, it } from 'vitest';
import { checkPassword, createPasswordHasher } from '../../src/identity/passwords.ts';

describe('a password', () => {
  it('is stored as scrypt with its cost and a salt of its own, and recognised', async () => {
    const hasher = createPasswordHasher();
    const [one, two] = [await hasher.hash('correct horse'), await hasher.hash('correct horse')];
    expect(one).toMatch(/^\$scrypt\$ln=15,r=8,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(one).not.toBe(two);
    expect(await hasher.verify('correct horse', one)).toBe(true);
    expect(await hasher.verify('correct horsf', one)).toBe(false);
    expect(await hasher.verify('', one)).toBe(false);
  });

  it('is the same however the keyboard composed its letters', async () => {
    const hasher = createPasswordHasher();
    expect(await hasher.verify('cafe\u0301-noir', await hasher.hash('caf\u00e9-noir'))).toBe(true);
  });

  it('costs one derivation of the same kind for a user there is and for one there is not', async () => {
    const costs: unknown[] = [];
    const hasher = createPasswordHasher(async (_password, salt, cost) => {
      costs.push({ ...cost, salt: salt.length });
      return Buffer.alloc(32, 1);
    });
    const stored = await hasher.hash('anything');
    expect(await hasher.verify('anything', stored)).toBe(true);
    expect(await hasher.verify('anything', undefined)).toBe(false);
    expect(await hasher.verify('anything', 'not ours')).toBe(false);
    expect(costs).toEqual(Array(4).fill({ ln: 15, r: 8, p: 1, salt: 16 }));
  });

  it('with a stored text that asks for absurd work is not tried', async () => {
    const hasher = createPasswordHasher();
    for (const cost of ['ln=40,r=8,p=1', 'ln=15,r=4000,p=1', 'ln=0,r=8,p=1', 'ln=15,r=8,p=99']) {
      expect(await hasher.verify('x', `$scrypt$${cost}$AAAA$AAAA`)).toBe(false);
    }
  });

  it.each([
    ['short1!', 'Password is too short'],
    ['x'.repeat(50) + 'yz1'.repeat(20), 'Password is too long'],
    ['ann-marie-2026', 'Password is similar to user name'],
    ['ANN-MARIE-2026', 'Password is similar to user name'],
    ['12eiram-nna34', 'Password is similar to user name'],
    ['aaaaaaaabb', 'Weak password'],
    [12345678, '[password] must be a string'],
  ])('%s is refused', (password, text) => {
    expect(() => checkPassword('ann-marie', password)).toThrow(text);
  });

  it('of eight characters is enough', () => {
    expect(checkPassword('ann', 'tr0ub4d0')).toBe('tr0ub4d0');
  });
});
