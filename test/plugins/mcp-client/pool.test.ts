import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import type { TenantLife } from '../../../lib/identity/tenant-ref.js'
import type { McpServer } from '../../../lib/schema/agent.js'
import type { Connection } from '../../../plugins/mcp-client/connection.js'
import { createPool } from '../../../plugins/mcp-client/pool.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'

const server: McpServer = { name: 'a', command: 'a' }
const signal = new AbortController().signal

function lifeOf (tenant: string): TenantLife {
  return scopeTenant(tenant).life
}

/** Counts open processes, and records their tenants. */
function world (maxProcesses: number, maxWait = 600_000) {
  const state = { open: 0, most: 0, started: 0, time: 0, failures: 0, fails: false, endAsTooLong: () => {} }
  const pool = createPool({
    maxProcesses,
    maxWait,
    now: () => state.time,
    onFailure: () => {
      state.failures++
    },
    async open () {
      state.started++
      state.most = Math.max(state.most, ++state.open)
      await turn()
      if (state.fails) {
        state.open--
        throw new Error('it does not start')
      }
      let end = () => {}
      const ended = new Promise<'tooLong' | undefined>((resolve) => {
        end = () => resolve(undefined)
        state.endAsTooLong = () => resolve('tooLong')
      })
      const connection: Connection = {
        ended,
        count: 1,
        tools: async () => new Map(),
        call: async () => ({ content: [], isError: false }),
        async close () {
          await turn()
          state.open--
          end()
        }
      }
      return connection
    }
  })
  return { state, pool }
}

test('a thousand tenants have eight processes at a time', async (t) => {
  const { state, pool } = world(8)
  const users = new Map<Connection, string>()
  await Promise.all(Array.from({ length: 1000 }, async (_, index) => {
    const tenant = `t${index}`
    await pool.use(server, lifeOf(tenant), new AbortController().signal, async (connection) => {
      const owner = users.get(connection) ?? tenant
      if (owner !== tenant) t.fail("a tenant got another tenant's process")
      users.set(connection, tenant)
      await turn()
    })
  }))
  t.equal(state.most, 8)
  t.equal(state.started, 1000)
  await pool.close()
  t.equal(state.open, 0)
})

test('the least recently used process ends first', async (t) => {
  const { state, pool } = world(2)
  const use = (tenant: string) => pool.use(server, lifeOf(tenant), signal, async (connection) => connection)
  const first = await use('a')
  await use('b')
  t.equal(await use('a'), first)
  await use('c')
  t.equal(await use('a'), first, "it was used after b's")
  t.equal(state.started, 3)
  t.equal(pool.status(server, lifeOf('b')).status, 'idle')
  t.equal(state.failures, 0)
  await pool.close()
})

test('a process with a running call does not end for another tenant', async (t) => {
  const { pool } = world(1)
  const waiting = new AbortController()
  await pool.use(server, lifeOf('a'), signal, async () => {
    const other = pool.use(server, lifeOf('b'), waiting.signal, async () => {})
    waiting.abort(new Error('the timeout has passed'))
    await t.rejects(other, /the timeout has passed/)
    t.equal(pool.status(server, lifeOf('a')).status, 'up')
  })
  await pool.use(server, lifeOf('b'), signal, async () => {})
  await pool.close()
})

test('a failing server restarts after increasing delays', async (t) => {
  const { state, pool } = world(8)
  const use = () => pool.use(server, lifeOf('a'), signal, async () => {})
  state.fails = true
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(pool.status(server, lifeOf('a')).status, 'down')
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(state.started, 1, 'not at once')
  state.time = 250
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(state.started, 2)
  state.time = 500
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(state.started, 2, 'the delay is twice as long')
  await pool.use(server, lifeOf('b'), signal, async () => {}).catch(() => {})
  t.equal(state.started, 3, "a tenant does not wait for another tenant's failures")
  state.fails = false
  state.time = 750
  await use()
  await pool.close()
})

test('a server that ended because of a long message starts again at once', async (t) => {
  const { state, pool } = world(8)
  const shared = { ...server, shared: true }
  for (let started = 1; started <= 3; started++) {
    await pool.use(shared, lifeOf('a'), signal, async () => {})
    t.match(state, { started, failures: started - 1 })
    state.endAsTooLong()
    await turn()
  }
  await pool.use(shared, lifeOf('b'), signal, async () => {})
  await pool.close()
})

test('a shared server is one process for all tenants', async (t) => {
  const { state, pool } = world(8)
  const shared = { ...server, shared: true }
  const [first, second] = await Promise.all(['a', 'b'].map((tenant) => pool.use(shared, lifeOf(tenant), signal, async (connection) => connection)))
  t.equal(first, second)
  t.equal(state.started, 1)
  await pool.close()
  await t.rejects(pool.use(shared, lifeOf('a'), signal, async () => {}), { code: 'TENANTRY_PROVIDER_TIMEOUT' })
})

const eight: McpServer[] = Array.from({ length: 8 }, (_, index) => ({ name: `s${index}`, command: 'a' }))

/** A call that the test ends. */
function call (pool: ReturnType<typeof createPool>, of: McpServer, tenant: string) {
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  let isBegun = false
  const done = pool.use(of, lifeOf(tenant), signal, async (connection) => {
    isBegun = true
    await ended
    return connection
  })
  return {
    done,
    end: () => end(),
    get isBegun () {
      return isBegun
    }
  }
}

/** Resolves when all calls that can start have started. */
async function settle (): Promise<void> {
  for (let index = 0; index < 50; index++) await turn()
}

test('a tenant with calls that never end leaves processes to others', async (t) => {
  const { state, pool } = world(8)
  const silent = eight.map((server) => call(pool, server, 'greedy'))
  await settle()
  t.equal(state.open, 6)
  for (const tenant of ['b', 'c', 'd']) await pool.use(server, lifeOf(tenant), signal, async () => {})
  const others = ['b', 'c'].map((tenant) => call(pool, server, tenant))
  await settle()
  t.strictSame(others.map(({ isBegun }) => isBegun), [true, true])
  for (const { end } of [...silent, ...others]) end()
  await Promise.all([...silent, ...others].map(({ done }) => done))
  t.equal(state.most, 8)
  await pool.close()
})

test('a free process goes to the tenant with the fewest', async (t) => {
  const { pool } = world(8)
  const greedy = eight.map((server) => call(pool, server, 'greedy'))
  const modest = [call(pool, server, 'modest'), call(pool, { ...server, name: 'b' }, 'modest')]
  const third = call(pool, server, 'third')
  await settle()
  const begun = () => [greedy.filter(({ isBegun }) => isBegun).length, modest.filter(({ isBegun }) => isBegun).length, third.isBegun]
  t.strictSame(begun(), [6, 1, true])
  greedy[0]?.end()
  await settle()
  t.strictSame(begun(), [6, 1, true], 'one stays free for tenants without any')
  greedy[1]?.end()
  await settle()
  t.strictSame(begun(), [6, 2, true], 'the greedy tenant has waited longer')
  for (const { end } of [...greedy, ...modest, third]) end()
  await Promise.all([...greedy, ...modest, third].map(({ done }) => done))
  await pool.close()
})

test('a tenant cannot keep a process with overlapping calls', async (t) => {
  const { state, pool } = world(1)
  const first = call(pool, server, 'a')
  await settle()
  const other = call(pool, server, 'b')
  const next = call(pool, server, 'a')
  await settle()
  t.equal(next.isBegun, false, 'it would keep the process')
  t.match([other.isBegun, state.started], [false, 1], 'the earlier call continues')
  first.end()
  await settle()
  t.strictSame([other.isBegun, next.isBegun, state.started], [true, false, 2])
  other.end()
  await Promise.all([other.done, first.done])
  next.end()
  await next.done
  t.equal(state.started, 3)
  await pool.close()
})

test("a tenant's calls overlap while no other tenant waits", async (t) => {
  const { state, pool } = world(1)
  const calls = [call(pool, server, 'a'), call(pool, server, 'a')]
  await settle()
  const leaving = new AbortController()
  const other = pool.use(server, lifeOf('b'), leaving.signal, async () => {})
  const held = call(pool, server, 'a')
  leaving.abort(new Error('gone'))
  await t.rejects(other, /gone/)
  await settle()
  t.equal(held.isBegun, true, 'the waiting tenant has left')
  for (const { end } of [...calls, held]) end()
  await Promise.all([...calls, held].map(({ done }) => done))
  t.equal(state.started, 1)
  await pool.close()
})

test('a call that waited too long is rejected', async (t) => {
  const alive = setInterval(() => {}, 60_000) // The pool's own timer does not keep a process alive.
  t.teardown(() => clearInterval(alive))
  const { pool } = world(1, 1)
  const first = call(pool, server, 'a')
  await settle()
  await t.rejects(pool.use(server, lifeOf('b'), signal, async () => {}), { code: 'TENANTRY_TOOLS_BUSY', headers: { 'retry-after': '1' } })
  first.end()
  await first.done
  await pool.use(server, lifeOf('b'), signal, async () => {})
  await pool.close()
})

test('connections of a deleted tenant end, and its waiting calls are rejected', async (t) => {
  const { state, pool } = world(1)
  const first = call(pool, server, 'a')
  await settle()
  const [second, third] = [call(pool, server, 'b'), call(pool, server, 'c')]
  await settle()
  t.same([...pool.tenants()].sort(), ['a', 'b', 'c'].map(lifeOf))
  const refused = t.rejects(async () => await second.done, { code: 'TENANTRY_TENANT_UNKNOWN' })
  pool.endOf(lifeOf('b'))
  await refused
  pool.endOf(lifeOf('a'))
  await settle()
  t.match([third.isBegun, state.started, state.open], [true, 2, 1], "the next tenant does not wait for the deleted one's call")
  t.same([...pool.tenants()], [lifeOf('c')])
  for (const { end } of [first, second, third]) end()
  await Promise.all([first.done, third.done])
  await pool.close()
})

test('a shared process does not end during a call', async (t) => {
  const { state, pool } = world(1)
  const shared = { ...server, shared: true }
  const first = call(pool, shared, 'a')
  await settle()
  const other = call(pool, { name: 'own', command: 'a' }, 'b')
  const second = call(pool, shared, 'c')
  await settle()
  t.strictSame([second.isBegun, other.isBegun], [true, false])
  for (const { end } of [first, second, other]) end()
  await Promise.all([first, second, other].map(({ done }) => done))
  t.equal(state.started, 2)
  await pool.close()
})
