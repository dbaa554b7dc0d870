/** Checks of the address of a Redis beyond its schema: it can be parsed. The fault does not show it. */
import type { FaultList } from '../../schema/faults.js'
import { readRedisUrl } from '../../redis/url.js'

export function checkRedisUrl (redis: { readonly url: string } | undefined, pointer: string, faults: FaultList): void {
  if (redis === undefined || readRedisUrl(redis.url) !== null) return
  faults.add(
    `${pointer}/url`,
    'is not valid: expected `redis://user:password@host:port/database`, a port of at most 65535, and `%25` for a `%` in user or password'
  )
}
