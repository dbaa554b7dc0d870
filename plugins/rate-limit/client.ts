/** Whose budget a request draws on: its tenant's, or that of the address it comes from. */
import { isIPv6 } from 'node:net'

const mappedIPv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i
const withPort = /^(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d+)?$/ // as some proxies write it, a port anew for each connection
const maxLength = 45 // characters of the longest address; a proxy may hand on whatever its client wrote

/**
 * The address as a key. One caller commands a whole /64 of IPv6 (RFC 4291, 2.5.1), which therefore counts as one client;
 * an IPv4 address is the same client whichever way it is written.
 */
export function addressKey (address: string | undefined): string {
  if (address === undefined) return 'unknown'
  if (!address.includes(':')) return address.length > maxLength ? address.slice(0, maxLength) : address
  const bare = withPort.exec(address)
  if (bare !== null) return addressKey(bare[1] ?? bare[2])
  const mapped = mappedIPv4.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address.slice(0, maxLength)
  const [left = '', right] = address.split('%', 1)[0]!.split('::')
  const head = groupsOf(left)
  const tail = right === undefined ? [] : groupsOf(right)
  // An IPv4 tail stands for two groups, which are never among the first four.
  const tailLength = tail.length + (right?.includes('.') === true ? 1 : 0)
  const zeros = right === undefined ? 0 : 8 - head.length - tailLength
  const groups = [...head, ...new Array<string>(zeros).fill('0'), ...tail].slice(0, 4)
  return `${groups.map((group) => group.replace(/^0+(?=.)/, '').toLowerCase()).join(':')}::/64`
}

function groupsOf (part: string): string[] {
  return part === '' ? [] : part.split(':')
}
