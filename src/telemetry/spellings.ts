const MINIMUM_BASE64_CORE = 5;

/**
 * Every way a value is likely to be written, each once: as it is, as the octets of a header field (latin1), each also
 * inside JSON once and twice; percent-encoded; base64.
 */
export function spellingsOf(value: string): string[] {
  const octets = Buffer.from(value, 'utf8').toString('latin1');
  const plain = [value, octets].flatMap((text) => [text, inJson(text), inJson(inJson(text))]);
  return [...new Set([...plain, ...percentEncoded(value), ...base64Cores(Buffer.from(value, 'utf8'))])];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function percentEncoded(value: string): string[] {
  const component = encodeURIComponent(Buffer.from(value, 'utf8').toString('utf8'));
  const strict = component.replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
  const both = [component, strict].flatMap((text) => [text, text.replaceAll('%20', '+')]);
  return [...both, ...both.map((text) => text.replace(/%[0-9A-F]{2}/g, (octet) => octet.toLowerCase()))];
}

/**
 * The characters of a base64 text that depend on these octets alone, for each of the three positions at which they can
 * stand in a longer value (`Basic` of `user:secret`), in both alphabets.
 */
function base64Cores(octets: Buffer): string[] {
  const cores = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), octets])
      .toString('base64')
      .replace(/=+$/, '');
    const first = Math.ceil((offset * 8) / 6);
    const last = Math.floor(((offset + octets.length) * 8) / 6);
    return text.slice(first, last);
  });
  const long = cores.filter((core) => core.length >= MINIMUM_BASE64_CORE);
  return [...long, ...long.map((core) => core.replaceAll('+', '-').replaceAll('/', '_'))];
}
