import { ENDPOINT_NOT_TRUSTED, INVALID_ARGUMENT } from '../errors.ts';
import { compilePatterns, judgeUrl } from '../outbound/address-guard.ts';
import type { EndpointPolicy } from '../outbound/types.ts';
import type { Settings } from '../settings/types.ts';

const TRUSTED = 'plugins.ml_commons.trusted_connector_endpoints_regex';
const TRUSTED_PRIVATE = 'plugins.ml_commons.trusted_connector_private_endpoints_regex';
const PRIVATE_ENABLED = 'plugins.ml_commons.connector.private_ip_enabled';
const RESTRICTED = 'plugins.ml_commons.connector.restricted_ip_patterns';

/** Where connectors may point now, by the cluster settings; in open mode loopback too. */
export function endpointPolicy(settings: Settings, { openMode }: { openMode: boolean }): EndpointPolicy {
  const trusted = settings.list(TRUSTED);
  return {
    trusted: trusted && compilePatterns(trusted, TRUSTED),
    trustedPrivate: compilePatterns(settings.list(TRUSTED_PRIVATE) ?? [], TRUSTED_PRIVATE),
    privateIpEnabled: settings.flag(PRIVATE_ENABLED),
    loopbackAllowed: openMode,
    restrictedIps: compilePatterns(settings.list(RESTRICTED) ?? [], RESTRICTED),
  };
}

/**
 * Checks the address of a connector by its text. Several spellings of one address (the `url` of an MCP server and its
 * whole address) are trusted when one of them is.
 * @throws ENDPOINT_NOT_TRUSTED with the setting that would allow it, INVALID_ARGUMENT when the trusted list is empty
 */
export function checkAddress(spellings: readonly [string, ...string[]], policy: EndpointPolicy): void {
  const verdicts = spellings.map((url) => judgeUrl(url, policy));
  if (verdicts.some(({ allowed }) => allowed)) return;
  const refusal = judgeUrl(spellings[0], policy);
  if (refusal.allowed) return;
  if (refusal.kind === 'empty_list') throw new INVALID_ARGUMENT(refusal.reason);
  throw new ENDPOINT_NOT_TRUSTED(`. ${refusal.reason}`);
}

/**
 * The policy for requests to `address`, the whole address of an MCP server whose `url` may be what a list names: that
 * list then names the whole address too.
 */
export function policyForAddress(policy: EndpointPolicy, url: string, address: string): EndpointPolicy {
  if (judgeUrl(address, policy).allowed || !judgeUrl(url, policy).allowed) return policy;
  const exact = { source: address, test: (text: string): boolean => text === address };
  const isPrivate = !judgeUrl(url, { ...policy, trustedPrivate: [] }).allowed;
  return isPrivate
    ? { ...policy, trustedPrivate: [...policy.trustedPrivate, exact] }
    : { ...policy, trusted: [...(policy.trusted ?? []), exact] };
}

/** The policy for requests to that origin, which the operator has named: any address of it but those that never are allowed. */
export function policyForOrigin(policy: EndpointPolicy, origin: string): EndpointPolicy {
  const named = {
    source: origin,
    test: (text: string): boolean => URL.canParse(text) && new URL(text).origin === origin,
  };
  return { ...policy, trustedPrivate: [...policy.trustedPrivate, named] };
}
