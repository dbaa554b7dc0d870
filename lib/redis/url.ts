/** Reads the address of a Redis. What cannot be read is never shown: it may hold a password. */

/** null where the client could not read it either: a port past 65535, or a `%` in user or password that begins no escape. */
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
