/** Counts that instances share, in Redis; where it is away this instance counts by itself. */
import type { RedisConnection } from '../../lib/redis.js'
import type { Limit } from './rules.js'
import type { ClientKind, RateLimitStore, Taken } from './store.js'
import { redisScript } from '../../lib/redis.js'

/**
 * KEYS: a count or two; ARGV: `max` and `windowMs` of each. Answers whether the request is admitted, Redis's clock, and of
 * each count the requests and the milliseconds left. A key lives as long as its window; one that would live longer, or for
 * ever, is a window from before the clock was set back, or from another rule.
 */
const take = redisScript(`
local time = redis.call('TIME')
local answer = { 1, time[1] * 1000 + math.floor(time[2] / 1000) }
local fresh = {}
for i, key in ipairs(KEYS) do
  local max, window = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local count, left = tonumber(redis.call('GET', key) or 0), redis.call('PTTL', key)
  if left <= 0 or left > window then
    count, left, fresh[i] = 0, window, true
  end
  if count >= max then answer[1] = 0 end
  answer[2 * i + 1], answer[2 * i + 2] = count, left
end
if answer[1] == 1 then
  for i, key in ipairs(KEYS) do
    answer[2 * i + 1] = answer[2 * i + 1] + 1
    if fresh[i] then redis.call('SET', key, 1, 'PX', ARGV[2 * i]) else redis.call('INCR', key) end
  end
end
return answer`)

/** KEYS: a count; ARGV: when the window of the request ends. Before Redis 7 the clock moves on while a script runs. */
const giveBack = redisScript(`
local time = redis.call('TIME')
local left = redis.call('PTTL', KEYS[1])
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + left
if left > 0 and math.abs(ends - ARGV[1]) <= 5 and tonumber(redis.call('GET', KEYS[1])) > 0 then redis.call('DECR', KEYS[1]) end`)

/** @param memory counts what Redis does not */
export function createRedisStore (connection: RedisConnection, memory: RateLimitStore): RateLimitStore {
  const store: RateLimitStore = {
    take (kind, client, first, second, now) {
      return connection.run(
        (redis) => second === null
          ? take(redis, [keyOf(kind, client, first)], [first.rule.max, first.rule.windowMs]).then(read)
          : take(redis, [keyOf(kind, client, first), keyOf(kind, client, second)], [first.rule.max, first.rule.windowMs, second.rule.max, second.rule.windowMs]).then(read),
        () => copied(memory.take(kind, client, first, second, now))
      )
    },
    giveBack (kind, client, limit, resetAt) {
      // Without Redis it stays counted: the window ends by itself.
      return connection.run<void>((redis) => giveBack(redis, [keyOf(kind, client, limit)], [resetAt]).then(() => {}), () => {})
    }
  }

  function read (answer: unknown): Taken {
    if (!Array.isArray(answer)) throw new Error('Redis answered the rate limit with no list')
    const [admitted, now, count, left, secondCount = 0, secondLeft = 0] = answer.map(Number)
    if (now === undefined || count === undefined || left === undefined) throw new Error('Redis answered the rate limit with a short list')
    return { admitted: admitted === 1, now, count, resetAt: now + left, secondCount, secondResetAt: now + secondLeft, store }
  }

  return store
}

/** It is read after others may have been counted. */
function copied (taken: Taken | Promise<Taken>): Taken | Promise<Taken> {
  return taken instanceof Promise ? taken : { ...taken }
}

/** Begins with the tenant or the address; a bucket's name is its last part, so that no two counts have one key. */
function keyOf (kind: ClientKind, client: string, { owner, key }: Limit): string {
  if (owner === null) return `tenantry:rl:${kind === 'tenant' ? 't' : 'a'}:${client}:${key}`
  return `tenantry:rl:t:${owner}:own:${kind === 'tenant' ? '' : client}:${key}`
}
