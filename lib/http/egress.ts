/** The egress rule: calls of tenants reach no loopback, private, link-local or reserved address, except those in `egress.allow`. */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** An exception: a name, or a range of addresses, for one port or all. */
interface Exception {
  readonly host: string | null
  readonly range: { readonly start: Address, readonly bits: number } | null
  readonly port: number | null
}

export type EgressRule = ReturnType<typeof compileEgress>

/** `allow` of the document. Throws for an entry with a fault. */
export function compileEgress (allow: readonly string[] = []) {
  const hosts = new Set<string>()
  const ranges: Exception[] = []
  for (const text of allow) {
    const entry = readException(text)
    if (typeof entry === 'string') throw new Error(`egress.allow: "${text}": ${entry}`)
    if (entry.host !== null) hosts.add(`${entry.host}:${entry.port ?? '*'}`)
    else ranges.push(entry)
  }
  return {
    /** The platform lists the name itself, so all its addresses are allowed. `host`: in lower case, without a dot at its end. */
    lists: (host: string, port: number): boolean => hosts.has(`${host}:*`) || hosts.has(`${host}:${port}`),
    /** The address, as digits without brackets, is allowed. False for an invalid one. */
    permits (text: string, port: number): boolean {
      if (isIP(text) === 0) return false
      const address = ipaddr.parse(text)
      return isPublic(address) || ranges.some((entry) => (entry.port === null || entry.port === port) && isWithin(address, entry.range))
    }
  }
}

/** The fault of an entry of `egress.allow`; undefined if it is valid. */
export function faultOfException (text: string): string | undefined {
  const entry = readException(text)
  return typeof entry === 'string' ? entry : undefined
}

// A public address of a large cloud's metadata service.
const notPublic: ReadonlySet<string> = new Set(['168.63.129.16'])

// The allocated part of IPv6; below it are unregistered addresses that contain one of IPv4 (`::127.0.0.1`).
const allocated = ipaddr.IPv6.parse('2000::')
const allocatedBits = 3

/** A public address of the registries, without mapped, translated or tunnelled ones. */
function isPublic (address: Address): boolean {
  if (address.range() !== 'unicast' || notPublic.has(address.toString())) return false
  return address.kind() === 'ipv4' || address.match(allocated, allocatedBits)
}

function isWithin (address: Address, range: Exception['range']): boolean {
  return range !== null && address.kind() === range.start.kind() && address.match(range.start, range.bits)
}

const forms =
  'expected a host, an address or a CIDR range, each with an optional port, such as `hooks.internal:8080`, `10.0.0.0/8` or `[fd00::1]:443`'
const name = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/

/** The entry, or its fault. */
function readException (text: string): Exception | string {
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(text)
  const colons = text.split(':').length - 1
  const [, target = text, portText] = bracketed ?? (colons === 1 ? /^([^:]*):(.*)$/.exec(text) : null) ?? []
  if (portText !== undefined && !/^[1-9]\d{0,4}$/.test(portText)) return 'expected a port from 1 to 65535 after the colon'
  const port = portText === undefined ? null : Number(portText)
  if (port !== null && port > 65_535) return 'expected a port from 1 to 65535 after the colon'
  const slash = target.indexOf('/')
  const base = slash < 0 ? target : target.slice(0, slash)
  const version = isIP(base)
  if (version !== 0) {
    if (bracketed !== null && version === 4) return forms
    const most = version === 4 ? 32 : 128
    const bitsText = slash < 0 ? String(most) : target.slice(slash + 1)
    const bits = Number(bitsText)
    if (!/^\d{1,3}$/.test(bitsText) || bits > most) return `expected a prefix of 0 to ${most} bits after the slash`
    // The zone of a range (`fe80::1%eth0`) would match no address.
    return base.includes('%') ? forms : { host: null, range: { start: ipaddr.parse(base), bits }, port }
  }
  if (slash >= 0 || bracketed !== null) return forms
  const host = hostOf(target)
  return host === undefined ? forms : { host, range: null, port }
}

/** A host name in the form of URLs; undefined for an invalid one, and for numbers that URLs read as an address. */
function hostOf (text: string): string | undefined {
  const url = `http://${text}`
  if (/[/?#@\\\s]/.test(text) || !URL.canParse(url)) return undefined
  const host = new URL(url).hostname.replace(/\.$/, '')
  return name.test(host) && isIP(host) === 0 && host.length <= 253 ? host : undefined
}
