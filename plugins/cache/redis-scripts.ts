/**
 * The scripts of the cache in Redis. Each does a bounded amount of work, atomically.
 *
 * The keys begin with `<p>`, which is `tenantry:cache:` (no tenant id contains a colon or is `*`):
 * - `<p><tenant>:item:<key>` the stamp, a line break, the value; it has an expiry. The stamp begins with the identity of the
 * memory that it was made in: a snapshot restores items and stamps, without the writes after it
 * - `<p><tenant>:order` the tenant's keys, by their last use
 * - `<p><tenant>:stamps` by table, a unique text; '' is the tenant itself
 * - `<p>*:order`, `<p>*:expiry`, `<p>*:sizes` every item as `<tenant>:<key>`, by its last use, by its expiry, with its bytes
 * - `<p>*:totals` the bytes by tenant, of all of them under `*`
 * - `<p>*:tables` like the stamps of a tenant, for tables without tenants; `<p>*:stamps` the one that all share
 */
import { redisScript } from '../../lib/redis/redis.js'

export const prefix = 'tenantry:cache:'

/** Unused stamps expire after a day. A value that is kept for longer keeps its stamps. */
const stampMs = 86_400_000

const common = `
local p = '${prefix}'
local function clock ()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end
local function split (member)
  local colon = string.find(member, ':', 1, true)
  return string.sub(member, 1, colon - 1), string.sub(member, colon + 1)
end
local function drop (member)
  local tenant, key = split(member)
  local removed = redis.call('UNLINK', p .. tenant .. ':item:' .. key)
  redis.call('ZREM', p .. tenant .. ':order', key)
  redis.call('ZREM', p .. '*:expiry', member)
  redis.call('ZREM', p .. '*:order', member)
  local bytes = redis.call('HGET', p .. '*:sizes', member)
  if bytes then
    redis.call('HDEL', p .. '*:sizes', member)
    redis.call('HINCRBY', p .. '*:totals', tenant, -bytes)
    redis.call('HINCRBY', p .. '*:totals', '*', -bytes)
  end
  if redis.call('EXISTS', p .. tenant .. ':order') == 0 then redis.call('HDEL', p .. '*:totals', tenant) end
  if redis.call('EXISTS', p .. '*:order') == 0 then redis.call('UNLINK', p .. '*:totals', p .. '*:sizes', p .. '*:expiry') end
  return removed
end
local function sweep (limit)
  local ended = redis.call('ZRANGEBYSCORE', p .. '*:expiry', '-inf', clock(), 'LIMIT', 0, limit)
  for _, member in ipairs(ended) do drop(member) end
  return #ended
end
`

/**
 * Looks up a value. Returns the value, or a list of the current stamps. KEYS: item, order of the tenant, order of all, stamps of all, of
 * the tenant, without tenant. ARGV: key, member, a unique text, the memory, the number of the tenant's tables, then the fields of the
 * stamps: the tenant itself, the tenant's tables, the tables without tenants.
 */
export const findScript = redisScript(`
local parts = { ARGV[4] }
local function read (name, from, to, max)
  local fields = {}
  for index = from, to do fields[#fields + 1] = ARGV[index] end
  if #fields == 0 then return end
  local found = redis.call('HMGET', name, unpack(fields))
  local fresh = {}
  for index, field in ipairs(fields) do
    if not found[index] then
      found[index] = ARGV[3]
      fresh[#fresh + 1] = field
      fresh[#fresh + 1] = ARGV[3]
    end
  end
  if #fresh > 0 then
    if redis.call('HLEN', name) + #fresh / 2 > max then
      redis.call('UNLINK', name)
      fresh = {}
      for index, field in ipairs(fields) do
        found[index] = ARGV[3]
        fresh[#fresh + 1] = field
        fresh[#fresh + 1] = ARGV[3]
      end
    end
    redis.call('HSET', name, unpack(fresh))
    if redis.call('PTTL', name) < ${stampMs} then redis.call('PEXPIRE', name, ${stampMs}) end
  end
  for _, stamp in ipairs(found) do parts[#parts + 1] = stamp end
end
local scoped = tonumber(ARGV[5])
read(KEYS[4], 6, 6, 1)
read(KEYS[5], 6, 6 + scoped, 100)
read(KEYS[6], 7 + scoped, #ARGV, 10000)
local stamp = table.concat(parts, '.')
local item = redis.call('GET', KEYS[1])
if not item or string.sub(item, 1, #stamp + 1) ~= stamp .. '\\n' then return { stamp } end
local time = redis.call('TIME')
local now = string.format('%d%06d', time[1], time[2])
-- A Redis whose memory is full still removes values. One that refuses writes for another reason, such as a replica, may have old ones.
local touched = redis.pcall('ZADD', KEYS[2], 'XX', now, ARGV[1])
if type(touched) == 'table' and touched.err and not string.find(touched.err, 'OOM', 1, true) then return touched end
redis.pcall('ZADD', KEYS[3], 'XX', now, ARGV[2])
return string.sub(item, #stamp + 2)
`)

/**
 * Stores a value; 1 if it did. KEYS: item, order of the tenant, stamps of all, of the tenant, without tenant. ARGV: tenant, key, stamp,
 * value, ms, bytes, items at most, bytes at most, items that may make room.
 */
export const keepScript = redisScript(`${common}
local tenant, key, bytes, ms = ARGV[1], ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[5])
local maxItems, maxBytes = tonumber(ARGV[7]), tonumber(ARGV[8])
local member = tenant .. ':' .. key
sweep(16)
if redis.call('HEXISTS', p .. '*:sizes', member) == 1 then drop(member) end
local totals = p .. '*:totals'
local function held (of) return tonumber(redis.call('HGET', totals, of) or '0') end
local function isFull () return redis.call('ZCARD', p .. '*:order') >= maxItems or held('*') + bytes > maxBytes end
local removed, limit = 0, tonumber(ARGV[9])
while isFull() and removed < limit do
  local owners = redis.call('HLEN', totals) - 1
  local own = redis.call('ZCARD', KEYS[2])
  local oldest
  if own > 0 and owners > 1 and (own >= maxItems / owners or held(tenant) + bytes > maxBytes / owners) then
    oldest = tenant .. ':' .. redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  else
    oldest = redis.call('ZRANGE', p .. '*:order', 0, 0)[1]
  end
  -- Redis evicted some of the keys: the totals count items that are gone.
  if not oldest then redis.call('UNLINK', totals, p .. '*:sizes', p .. '*:expiry') break end
  drop(oldest)
  removed = removed + 1
end
if isFull() then return 0 end
local now = clock()
redis.call('SET', KEYS[1], ARGV[3] .. '\\n' .. ARGV[4], 'PX', ms)
redis.call('ZADD', KEYS[2], now, key)
redis.call('ZADD', p .. '*:order', now, member)
redis.call('ZADD', p .. '*:expiry', string.format('%.0f', tonumber(now) + ms * 1000), member)
redis.call('HSET', p .. '*:sizes', member, bytes)
redis.call('HINCRBY', totals, tenant, bytes)
redis.call('HINCRBY', totals, '*', bytes)
for index = 3, 5 do
  local left = redis.call('PTTL', KEYS[index])
  if left >= 0 and left < ms then redis.call('PEXPIRE', KEYS[index], ms) end
end
return 1
`)

/** Removes an item; returns the number removed. ARGV: member. */
export const dropScript = redisScript(`${common}
return drop(ARGV[1])
`)

/** Removes items of an order; returns the number removed. ARGV: the order's key, the prefix of its members, how many at most. */
export const emptyScript = redisScript(`${common}
local members = redis.call('ZRANGE', ARGV[1], 0, ARGV[3] - 1)
for _, member in ipairs(members) do drop(ARGV[2] .. member) end
return #members
`)

/**
 * Removes expired items; returns their number, with the remaining items and bytes. ARGV: the order's key, the owner of the total, how many
 * at most.
 */
export const statsScript = redisScript(`${common}
local ended = sweep(ARGV[3])
return { ended, redis.call('ZCARD', ARGV[1]), tonumber(redis.call('HGET', p .. '*:totals', ARGV[2]) or '0') }
`)

/** The unexpired keys of a part of a tenant's order, after the length of that part. KEYS: the order. ARGV: tenant, from, to. */
export const keysScript = redisScript(`
local keys = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[3])
local found = { tostring(#keys) }
for _, key in ipairs(keys) do
  if redis.call('EXISTS', '${prefix}' .. ARGV[1] .. ':item:' .. key) == 1 then found[#found + 1] = key end
end
return found
`)
