/** Counts of @fastify/rate-limit that instances share in Redis. While Redis is unreachable each instance counts for itself. */
import { createHash } from 'node:crypto'
import type { WindowCount, Counter, CounterOptions } from './store.js'
import { redisScript, type RedisConnection } from '../../lib/redis/redis.js'
import { createMemoryCounter } from './memory-counter.js'
import { boundedKey } from './rules.js'

/** ARGV: `windowMs`, `max` and the renewal. A key without an expiry, for example of another program, gets one. */
const hit = redisScript(`
local window, max = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = redis.call('INCR', KEYS[1])
local span = window
if count > 1 and (count <= max or ARGV[3] == 'none') then
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 then return { count, left } end
elseif count > max and ARGV[3] == 'double' then
  span = math.min(window * 2 ^ (count - max - 1), ${Number.MAX_SAFE_INTEGER})
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', span))
return { count, span }`)

const readScript = redisScript(`
return { tonumber(redis.call('GET', KEYS[1]) or 0), math.max(0, redis.call('PTTL', KEYS[1])) }`)

export function createRedisCounter (connection: RedisConnection, options: CounterOptions): Counter {
  const memory = createMemoryCounter(options)
  // A hash has a fixed length, so that a name and a client's key cannot merge into another pair.
  const name = createHash('sha256').update(options.name).digest('base64url').slice(0, 16)
  const keyOf = (key: string) => `tenantry:rl:r:${name}:${boundedKey(key)}`
  return {
    hit (key, windowMs, max, now) {
      return connection.run(
        (redis) => hit(redis, [keyOf(key)], [windowMs, max, options.renewal]).then(toCounted),
        () => memory.hit(key, windowMs, max, now)
      )
    },
    read (key, now) {
      return connection.run((redis) => readScript(redis, [keyOf(key)], []).then(toCounted), () => memory.read(key, now))
    }
  }
}

function toCounted (reply: unknown): WindowCount {
  if (!Array.isArray(reply)) throw new Error('Redis did not return a list for the rate limit')
  const [current, ttl] = reply.map(Number)
  if (current === undefined || ttl === undefined) throw new Error('Redis returned too short a list for the rate limit')
  return { current, ttl }
}
