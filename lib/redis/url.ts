/** Parses the address of a Redis. An invalid one is never shown, since it may contain a password. */

/** null if the client could not parse it either: a port past 65535, or an invalid `%` in user or password. */
export function readRedisUrl (url: string): URL | null {
  try {
    const read = new URL(url)
    decodeURIComponent(read.username)
    decodeURIComponent(read.password)
    return read
  } catch {
    return null
  }
}
