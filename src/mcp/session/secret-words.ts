import { visibleText } from '../visible-text.ts';

/** Words that ask for something nobody should type into a form of a server, or two of them in a row; without accents. */
const WORDS: ReadonlySet<string> = new Set([
  ...['password', 'passwords', 'passwd', 'pwd', 'passphrase', 'passcode', 'otp', 'totp', 'ssn', 'cvv', 'cvc', 'cvn'],
  ...['passwort', 'kennwort', 'contrasena', 'contrasenya', 'senha', 'motdepasse', 'wachtwoord', 'losenord', 'salasana'],
  ...['apikey', 'accesskey', 'privatekey', 'secretkey', 'accesstoken', 'authtoken', 'bearertoken', 'clientsecret'],
  ...[
    'creditcard',
    'cardnumber',
    'debitcard',
    'securitycode',
    'socialsecurity',
    'pincode',
    'onetimecode',
    'haslo',
    'parola',
  ],
  ...['yourpin', 'yourtoken', 'yoursecret', 'yourcredentials', 'thepin', 'enterpin', 'pinnumber', 'seedphrase'],
]);
/** Those that are innocent in a sentence: "pin the note", "a token of thanks". */
const LABEL_WORDS: ReadonlySet<string> = new Set(['pin', 'token', 'secret', 'secrets', 'credential', 'credentials']);
/** So long that they mean the same inside of a word. */
const PARTS: readonly string[] = [
  ...['password', 'passphrase', 'passcode', 'passwort', 'kennwort', 'contrasena', 'motdepasse', 'wachtwoord'],
  ...['apikey', 'accesstoken', 'privatekey', 'creditcard', 'socialsecuritynumber', 'losenord'],
];
/** In scripts that do not part words, or that are told from Latin by their letters only. */
const OTHER_SCRIPTS = /парол|пін-?код|пин-?код|密码|密碼|口令|パスワード|暗証番号|비밀번호|كلمة\s*(السر|المرور)|סיסמ/u;
/** Letters and digits that are drawn like others. */
const LOOKALIKES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...{
      а: 'a',
      е: 'e',
      о: 'o',
      р: 'p',
      с: 'c',
      у: 'y',
      х: 'x',
      і: 'i',
      ј: 'j',
      ѕ: 's',
      ԁ: 'd',
      ԝ: 'w',
      һ: 'h',
      к: 'k',
    },
    ...{
      т: 't',
      м: 'm',
      н: 'h',
      в: 'b',
      п: 'n',
      ӏ: 'l',
      α: 'a',
      ε: 'e',
      ο: 'o',
      ρ: 'p',
      ν: 'v',
      τ: 't',
      ι: 'i',
      κ: 'k',
    },
    ...{
      ѡ: 'w',
      ω: 'w',
      σ: 'o',
      ԛ: 'q',
      ɑ: 'a',
      ı: 'i',
      ɡ: 'g',
      ᴘ: 'p',
      ѵ: 'v',
      ß: 'ss',
      '0': 'o',
      '1': 'l',
      '3': 'e',
    },
    ...{ '4': 'a', '5': 's', '7': 't', '@': 'a', $: 's', '!': 'i', '|': 'l' },
  }),
);

/**
 * Whether the name or the label of a field, or with `prose` a text, asks for a secret: a password, a key, a number of a card.
 * However it is written: with digits, gaps, hidden characters or letters of other scripts.
 */
export function asksForSecret(text: string, { prose = false }: { readonly prose?: boolean } = {}): boolean {
  const shown = visibleText(text.normalize('NFKC'), prose ? 4096 : 256);
  if (OTHER_SCRIPTS.test(shown.toLowerCase()) || (prose && /\bPIN\b/.test(shown))) return true;
  const parted = shown.replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').toLowerCase();
  const latin = parted.normalize('NFD').replace(/\p{M}/gu, '');
  return [latin, [...latin].map((letter) => LOOKALIKES.get(letter) ?? letter).join('')].some((written) =>
    namesSecret(written, prose),
  );
}

function namesSecret(written: string, prose: boolean): boolean {
  const known = (word: string): boolean => WORDS.has(word) || (!prose && LABEL_WORDS.has(word));
  const words = joined(
    written
      .split(/[^\p{L}\p{N}]+/u)
      .map((word) => word.replace(/\P{L}/gu, ''))
      .filter((word) => word !== ''),
  );
  if (words.some((word) => PARTS.some((part) => word.includes(part)))) return true;
  const runs = words.flatMap((word, at) => [word, ...[2, 3].map((count) => words.slice(at, at + count).join(''))]);
  return runs.some(known) || (!prose && known(words.join('')));
}

/** Letters that stand alone in a row are one word: "p i n". */
function joined(words: readonly string[]): string[] {
  const found: string[] = [];
  let alone = false;
  for (const word of words) {
    const letter = word.length === 1;
    if (letter && alone) found.push(`${found.pop()}${word}`);
    else found.push(word);
    alone = letter;
  }
  return found;
}
