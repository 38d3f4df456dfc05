import { errors, type JWTPayload, jwtVerify } from 'jose';
import { createProviderKeys, type ProviderKeysDeps, ProviderUnavailable } from './jwks.ts';
import type { TokenIdentity } from './principal-of.ts';

export interface OpenIdSettings {
  /** Exactly as tokens name it in `iss`. */
  readonly issuer: string;
  /** One of these has to be in `aud`. */
  readonly audience: readonly string[];
  /** Claim with the backend roles; a dot leads into an object (`realm_access.roles`). */
  readonly rolesClaim: string;
  /** Claim with the name to show; `sub` where it is missing. */
  readonly nameClaim: string;
}

export type TokenVerdict =
  | { readonly ok: true; readonly identity: TokenIdentity }
  /** `unavailable`: the provider did not answer, so nothing is known about the token. */
  | { readonly ok: false; readonly reason: string; readonly unavailable: boolean };

export interface TokenCheck {
  readonly issuer: string;
  verify(token: string): Promise<TokenVerdict>;
}

export interface TokenCheckDeps extends Omit<ProviderKeysDeps, 'issuer'> {
  readonly settings: OpenIdSettings;
}

/** Signatures with the provider's private key only: a shared secret would let every holder make tokens. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
const TOLERANCE_SECONDS = 60;

/** Tokens of an OpenID provider: signature, issuer, audience and times (RFC 7519, RFC 8725). */
export function createTokenCheck({ settings, outbound, log, now = Date.now }: TokenCheckDeps): TokenCheck {
  const { issuer, audience, rolesClaim, nameClaim } = settings;
  const keys = createProviderKeys({ issuer, outbound, log, now });

  function identityOf(claims: JWTPayload): TokenIdentity {
    const subject = claims.sub ?? '';
    const name = claims[nameClaim];
    return {
      issuer,
      subject,
      name: typeof name === 'string' && name !== '' ? name : subject,
      backendRoles: namesOf(claimAt(claims, rolesClaim)),
    };
  }

  return {
    issuer,
    async verify(token) {
      try {
        const { payload } = await jwtVerify(token, keys, {
          issuer,
          audience: [...audience],
          algorithms: ALGORITHMS,
          clockTolerance: TOLERANCE_SECONDS,
          requiredClaims: ['exp', 'sub'],
          currentDate: new Date(now()),
        });
        if (payload.sub === '') return refused('The token has an empty "sub"');
        return { ok: true, identity: identityOf(payload) };
      } catch (error) {
        if (error instanceof ProviderUnavailable) {
          const reason = 'The token cannot be checked now: the OpenID provider does not give its keys. Try again later';
          return { ok: false, reason, unavailable: true };
        }
        if (error instanceof errors.JOSEError) return refused(reasonOf(error));
        // Keys of the provider that cannot be used, as WebCrypto reports them.
        log.error({ err: error }, 'a token could not be checked with the keys of the OpenID provider');
        return refused('The token is not valid');
      }
    },
  };
}

/** Whether a text has the form of a signed token (RFC 7515, 7.1). */
export function looksLikeToken(text: string): boolean {
  return /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(text);
}

function refused(reason: string): TokenVerdict {
  return { ok: false, reason, unavailable: false };
}

/** Says which check failed, never what the token holds. */
function reasonOf(error: errors.JOSEError): string {
  if (error instanceof errors.JWTExpired) return 'The token has expired';
  if (error instanceof errors.JWTClaimValidationFailed)
    return `The claim "${error.claim}" of the token is not accepted`;
  if (error instanceof errors.JOSEAlgNotAllowed) return 'The algorithm of the token is not accepted';
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) {
    return 'The token is signed with a key the OpenID provider does not have';
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'The signature of the token is not right';
  return 'The token is not valid';
}

function claimAt(claims: JWTPayload, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  return path.split('.').reduce<unknown>((value, member) => {
    const inside = typeof value === 'object' && value !== null && Object.hasOwn(value, member);
    return inside ? (value as Record<string, unknown>)[member] : undefined;
  }, claims);
}

/** A list of names, or a text with spaces or commas between them. */
function namesOf(value: unknown): string[] {
  const list = typeof value === 'string' ? value.split(/[\s,]+/) : Array.isArray(value) ? value : [];
  return [...new Set(list.filter((name): name is string => typeof name === 'string' && name !== ''))];
}
