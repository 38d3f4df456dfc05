import { describe, expect, it } from 'vitest';
import { redirectTarget } from '../../src/outbound/redirect.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

const FROM = new URL('https://a.example/mcp');

describe('a redirect that is not followed is shown', () => {
  const { clean, taint } = createRedactor();
  taint(['k3y!', 'a longer secret / with spaces']);

  function shown(location: string): string {
    try {
      redirectTarget('same-origin', 307, location, FROM, 0, clean);
    } catch (error) {
      return (error as { text?: string }).text ?? (error as Error).message;
    }
    throw new Error('followed');
  }

  it.each([
    ['https://b.example/new?k=k3y!#k3y!', 'https://b.example/new (307)'],
    ['https://u:k3y!@b.example/new', 'https://b.example/new (307)'],
    ['https://b.example/k3y!/new', 'https://b.example/[redacted]/new (307)'],
    ['https://k3y!.example/', '[redacted].example/ (307)'],
    ['https://b.example/%6B3y!', 'https://b.example/… (307)'],
    [`https://b.example/${encodeURIComponent('a longer secret / with spaces')}`, 'https://b.example/[redacted] (307)'],
    [`https://b.example/${'x'.repeat(280)}/k3y!k3y!`, `https://b.example/${'x'.repeat(280)}`],
  ])('without secrets: %s', (location, address) => {
    const text = shown(location);
    expect(text).toContain(address);
    expect(text).not.toMatch(/k3y|longer|%6B|%20/);
  });
});
