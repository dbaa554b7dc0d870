/** Counts that instances share, in Redis; where it is away this instance counts by itself. */
import type { RedisConnection } from '../../lib/redis.js'
import type { Limit } from './rules.js'
import type { ClientKind, RateLimitStore, Taken } from './store.js'
import { redisScript } from '../../lib/redis.js'

/**
 * KEYS: a count or two; ARGV: `max` and `windowMs` of each. Answers whether the request is admitted, Redis's clock, and of
 * each count the requests and the end of the window, which are the key's value too: `7 1800000000000`. A key lives as
 * long as its window; one whose end is further away than a window is long is from before the clock was set back.
 */
const take = redisScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = { 1, now }
for i, key in ipairs(KEYS) do
  local max, window = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local count, ends = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  count, ends = tonumber(count or 0), tonumber(ends or 0)
  if ends <= now or ends - now > window then count, ends = 0, now + window end
  if count >= max then answer[1] = 0 end
  answer[2 * i + 1], answer[2 * i + 2] = count, ends
end
if answer[1] == 1 then
  for i, key in ipairs(KEYS) do
    local count, ends = answer[2 * i + 1] + 1, answer[2 * i + 2]
    answer[2 * i + 1] = count
    redis.call('SET', key, string.format('%d %d', count, ends), 'PX', ends - now)
  end
end
return answer`)

/** KEYS: a count; ARGV: when the window of the request ends. */
const giveBack = redisScript(`
local count, ends = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
if ends == ARGV[1] and tonumber(count) > 0 then redis.call('SET', KEYS[1], string.format('%d %s', count - 1, ends), 'KEEPTTL') end`)

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
    const [admitted, now, count, resetAt, secondCount = 0, secondResetAt = 0] = answer.map(Number)
    if (now === undefined || count === undefined || resetAt === undefined) throw new Error('Redis answered the rate limit with a short list')
    return { admitted: admitted === 1, now, count, resetAt, secondCount, secondResetAt, store }
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
