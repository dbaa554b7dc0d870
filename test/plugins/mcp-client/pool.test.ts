import type { Connection } from '../../../plugins/mcp-client/connection.js'
import type { McpServer } from '../../../lib/config/schema/agent.js'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import { createPool } from '../../../plugins/mcp-client/pool.js'

const server: McpServer = { name: 'a', command: 'a' }
const signal = new AbortController().signal

/** Counts what is open, and knows for whom. */
function world (maxProcesses: number) {
  const state = { open: 0, most: 0, started: 0, time: 0, failures: 0, fails: false }
  const pool = createPool({
    maxProcesses,
    now: () => state.time,
    onFailure: () => { state.failures++ },
    async open () {
      state.started++
      state.most = Math.max(state.most, ++state.open)
      await turn()
      if (state.fails) {
        state.open--
        throw new Error('it does not start')
      }
      let end = () => {}
      const ended = new Promise<void>((resolve) => { end = resolve })
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
    await pool.use(server, tenant, new AbortController().signal, async (connection) => {
      const owner = users.get(connection) ?? tenant
      if (owner !== tenant) t.fail('a tenant has the process of another one')
      users.set(connection, tenant)
      await turn()
    })
  }))
  t.equal(state.most, 8)
  t.equal(state.started, 1000)
  await pool.close()
  t.equal(state.open, 0)
})

test('the process that was not used for the longest time ends', async (t) => {
  const { state, pool } = world(2)
  const use = (tenant: string) => pool.use(server, tenant, signal, async (connection) => connection)
  const first = await use('a')
  await use('b')
  t.equal(await use('a'), first)
  await use('c')
  t.equal(await use('a'), first, 'it was used after that of b')
  t.equal(state.started, 3)
  t.equal(pool.status(server, 'b').status, 'idle')
  t.equal(state.failures, 0)
  await pool.close()
})

test('a process that a call uses does not end for another tenant', async (t) => {
  const { pool } = world(1)
  const waiting = new AbortController()
  await pool.use(server, 'a', signal, async () => {
    const other = pool.use(server, 'b', waiting.signal, async () => {})
    waiting.abort(new Error('the time is over'))
    await t.rejects(other, /the time is over/)
    t.equal(pool.status(server, 'a').status, 'up')
  })
  await pool.use(server, 'b', signal, async () => {})
  await pool.close()
})

test('a server that fails starts again after a while, each time a longer one', async (t) => {
  const { state, pool } = world(8)
  const use = () => pool.use(server, 'a', signal, async () => {})
  state.fails = true
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(pool.status(server, 'a').status, 'down')
  await t.rejects(use(), { code: 'TENANTRY_TOOL_FAILED' })
  t.equal(state.started, 1, 'not at once')
  state.time = 250
  await t.rejects(use())
  t.equal(state.started, 2)
  state.time = 500
  await t.rejects(use())
  t.equal(state.started, 2, 'it waits for twice as long')
  await pool.use(server, 'b', signal, async () => {}).catch(() => {})
  t.equal(state.started, 3, 'a tenant does not wait for the failures of another one')
  state.fails = false
  state.time = 750
  await use()
  await pool.close()
})

test('a shared server is one for all', async (t) => {
  const { state, pool } = world(8)
  const shared = { ...server, shared: true }
  const [first, second] = await Promise.all(['a', 'b'].map((tenant) => pool.use(shared, tenant, signal, async (connection) => connection)))
  t.equal(first, second)
  t.equal(state.started, 1)
  await pool.close()
  await t.rejects(pool.use(shared, 'a', signal, async () => {}), { code: 'TENANTRY_STOPPING' })
})
