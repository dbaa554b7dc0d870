/** Counts that instances share in Redis. While Redis is unreachable each instance counts for itself. */
import { createHash } from 'node:crypto'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { type RedisConnection, redisScript } from '../../lib/redis/redis.js'
import { createMemoryCounter } from './memory.js'
import { boundedKey, type Limit } from './rules.js'
import type { ClientKind, Counter, CounterOptions, LimitResult, RateLimitStore, WindowCount } from './store.js'

const maxOfOwner = 2000 // windows for the rules of a tenant's document, as many as in memory

/**
 * The key of a count holds `7 1800000000000`: the number of requests and the end of the window. A key expires with its
 * window. If the end is further away than the length of the window, the clock was set back, and the value is ignored.
 *
 * The counts of a tenant's own document are fields of two hashes, which bounds their memory for any document and any number
 * of addresses. A used field moves to the young hash. When the young hash is full, it replaces the old one.
 *
 * ARGV: for each count `max`, `windowMs` and its field, which is empty if the count has its own key. KEYS: for each count
 * its key, or the young and the old hash. Returns whether the request is admitted, Redis's clock, and for each count the
 * requests and the end of the window.
 */
const take = redisScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { 1, now }
local places = {}
local function keep (young, old, field, value, span)
  if redis.call('HEXISTS', young, field) == 0 and redis.call('HLEN', young) >= ${maxOfOwner / 2} then redis.call('RENAME', young, old) end
  redis.call('HSET', young, field, value)
  if redis.call('PTTL', young) < span then redis.call('PEXPIRE', young, span) end
end
local nextKey = 1
for i = 1, #ARGV / 3 do
  local max, window, field = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  local key, old, value, aged = KEYS[nextKey], nil, nil, nil
  if field == '' then
    nextKey = nextKey + 1
    value = redis.call('GET', key)
  else
    old = KEYS[nextKey + 1]
    nextKey = nextKey + 2
    value = redis.call('HGET', key, field)
    if not value then
      aged = redis.call('HGET', old, field)
      value = aged
    end
  end
  local count, ends = string.match(value or '', '^(%d+) (%d+)$')
  count, ends = tonumber(count or 0), tonumber(ends or 0)
  if ends <= now or ends - now > window then count, ends = 0, now + window
  elseif aged and count >= max then keep(key, old, field, aged, ends - now) end
  if count >= max then reply[1] = 0 end
  reply[2 * i + 1], reply[2 * i + 2] = count, ends
  places[i] = { key, old, field }
end
if reply[1] == 1 then
  for i, place in ipairs(places) do
    local count, ends = reply[2 * i + 1] + 1, reply[2 * i + 2]
    local value = string.format('%d %d', count, ends)
    reply[2 * i + 1] = count
    if place[2] then keep(place[1], place[2], place[3], value, ends - now)
    else redis.call('SET', place[1], value, 'PX', ends - now) end
  end
end
return reply`)

/** KEYS: as above; ARGV: the end of the request's window, and the field. */
const refund = redisScript(`
local field = ARGV[2]
for _, key in ipairs(KEYS) do
  local value
  if field == '' then value = redis.call('GET', key) else value = redis.call('HGET', key, field) end
  if value then
    local count, ends = string.match(value, '^(%d+) (%d+)$')
    if ends ~= ARGV[1] or tonumber(count) == 0 then return end
    value = string.format('%d %s', count - 1, ends)
    if field == '' then redis.call('SET', key, value, 'KEEPTTL') else redis.call('HSET', key, field, value) end
    return
  end
end`)

/** @param memory counts while Redis is unreachable */
export function createRedisStore (connection: RedisConnection, memory: RateLimitStore): RateLimitStore {
  const store: RateLimitStore = {
    take (kind, client, first, second, now) {
      return connection.run(
        (redis) => {
          const keys: string[] = []
          const values: (string | number)[] = []
          for (const limit of second === null ? [first] : [first, second]) {
            const { rule: { max, windowMs } } = limit
            keys.push(...keysOf(kind, client, limit))
            values.push(max, windowMs, fieldOf(kind, client, limit))
          }
          return take(redis, keys, values).then(read)
        },
        () => memory.take(kind, client, first, second, now)
      )
    },
    refund (kind, client, limit, resetAt) {
      // Without Redis the request stays counted until the window ends.
      return connection.run<void>(
        (redis) => refund(redis, keysOf(kind, client, limit), [resetAt, fieldOf(kind, client, limit)]).then(() => {}),
        () => {}
      )
    },
    counter: (options) => createRedisCounter(connection, options)
  }

  function read (reply: unknown): LimitResult {
    const [admitted, now = 0, count = 0, resetAt = 0, secondCount = 0, secondResetAt = 0] = numbersOf(reply, 4)
    return { admitted: admitted === 1, now, count, resetAt, secondCount, secondResetAt, store }
  }

  return store
}

/** Begins with the tenant or the address. The name of the bucket comes last, so that no two counts share a key. */
function keysOf (kind: ClientKind, client: string, { owner, key }: Limit): readonly string[] {
  if (owner === platformRef) return [`tenantry:rl:${kind === 'tenant' ? 't' : 'a'}:${client}:${key}`]
  return [`tenantry:rl:o:${owner}:young`, `tenantry:rl:o:${owner}:old`]
}

/** The field in the owner's hash; empty for a count without an owner. */
function fieldOf (kind: ClientKind, client: string, { owner, key }: Limit): string {
  return owner === platformRef ? '' : `${kind === 'tenant' ? '' : client}:${key}`
}

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

/** Counts of @fastify/rate-limit that instances share in Redis. While Redis is unreachable each instance counts for itself. */
function createRedisCounter (connection: RedisConnection, options: CounterOptions): Counter {
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
  const [current = 0, ttl = 0] = numbersOf(reply, 2)
  return { current, ttl }
}

function numbersOf (reply: unknown, least: number): number[] {
  if (Array.isArray(reply) && reply.length >= least) return reply.map(Number)
  throw new Error(`Redis did not return a list of ${least} numbers for the rate limit`)
}
