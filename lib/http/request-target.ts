/** Request targets in absolute form (RFC 9112, 3.2.2), which proxies may send: `http://host/path`. */

const absolute = /^https?:\/\/[^/?#]+/i

/** The scheme and the host of a target in absolute form; empty for another target. */
export function originOf (target: string): string {
  return target.startsWith('/') ? '' : absolute.exec(target)?.[0] ?? ''
}

/** The path and the query of the target. */
export function localTarget (target: string): string {
  const origin = originOf(target)
  if (origin === '') return target
  const local = target.slice(origin.length)
  return local.startsWith('/') ? local : `/${local}`
}
