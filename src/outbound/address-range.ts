import ipaddr from 'ipaddr.js';

/** `forbidden`: never contacted, whatever is set. `private`: anything else that is not public unicast. */
export type AddressRange = 'public' | 'private' | 'loopback' | 'forbidden';

/** Special-purpose ranges that no service can live in, or that belong to the host's own link. */
const NEVER: ReadonlySet<string> = new Set(['linkLocal', 'multicast', 'unspecified', 'broadcast', 'discard']);

/** Instance metadata services that are outside the link-local ranges. */
const METADATA: readonly (readonly [string, number])[] = [
  ['100.100.100.200', 32],
  ['192.0.0.192', 32],
  ['168.63.129.16', 32],
  ['fd00:ec2::', 32],
  ['fd00:c1::a9fe:a9fe', 128],
  ['fd20:ce::254', 128],
];
const metadataBlocks = METADATA.map(([address, bits]) => [ipaddr.parse(address), bits] as const);
const GLOBAL_UNICAST_V6 = [ipaddr.IPv6.parse('2000::'), 3] as const;

/**
 * Range of one address in textual form (no brackets). An IPv6 address that carries an IPv4 one (mapped, NAT64, 6to4,
 * Teredo, IPv4-compatible) is never public, and is forbidden where the carried address is.
 * `undefined`: the text is not an address.
 */
export function addressRange(address: string): AddressRange | undefined {
  if (!ipaddr.isValid(address)) return undefined;
  return rangeOf(ipaddr.parse(address));
}

/** Whether the text is an IPv4-mapped IPv6 address (`::ffff:0:0/96`). */
export function isMappedAddress(address: string): boolean {
  return ipaddr.IPv6.isValid(address) && ipaddr.IPv6.parse(address).isIPv4MappedAddress();
}

function rangeOf(address: ipaddr.IPv4 | ipaddr.IPv6): AddressRange {
  const range = address.range();
  if (NEVER.has(range) || isMetadata(address)) return 'forbidden';
  if (range === 'loopback') return 'loopback';
  if (!isV6(address)) return range === 'unicast' ? 'public' : 'private';
  const carried = carriedV4(address, range);
  if (carried !== undefined && rangeOf(carried) === 'forbidden') return 'forbidden';
  return range === 'unicast' && address.match(...GLOBAL_UNICAST_V6) ? 'public' : 'private';
}

function isV6(address: ipaddr.IPv4 | ipaddr.IPv6): address is ipaddr.IPv6 {
  return address.kind() === 'ipv6';
}

function isMetadata(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return metadataBlocks.some(([block, bits]) => block.kind() === address.kind() && address.match(block, bits));
}

function carriedV4(address: ipaddr.IPv6, range: string): ipaddr.IPv4 | undefined {
  const bytes = address.toByteArray();
  if (range === '6to4') return new ipaddr.IPv4(bytes.slice(2, 6));
  if (range === 'teredo') return new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff));
  const compatible = bytes.slice(0, 12).every((byte) => byte === 0);
  if (compatible || range === 'ipv4Mapped' || range === 'rfc6145' || range === 'rfc6052') {
    return new ipaddr.IPv4(bytes.slice(12));
  }
  return undefined;
}
