/** Tools of requests whose tenant is deleted meanwhile, and whose id a later tenant has. */
import { sql } from 'kysely'
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { replaceTenant } from '../../helpers/succession.js'
import { bearer } from '../../helpers/tokens.js'
import { open } from './app.js'

test('a request calls no tool for a later tenant with the id', async (t) => {
  const [begun, door] = [gate(), gate()]
  let coded = 0
  const { app } = await open(t, undefined, {
    engine: { provider: 'embedded' },
    prepare (app) {
      app.register(async (group) => {
        const tool = { name: 'coded', description: 'A route in code.', readOnly: false, destructive: false }
        group.post('/coded', { config: { access: 'open', tool }, schema: {} }, async () => {
          coded++
          return {}
        })
        group.post('/late', { config: { access: 'user' } }, async (request) => {
          begun.open()
          await door.opened
          const calls = [['add_note', { body: { title: 'of the earlier tenant' } }], ['get_notes', {}], ['coded', {}]] as const
          const results = await Promise.allSettled(calls.map(([name, input]) => group.tools.call(name, input, request)))
          return results.map((result) => result.status === 'rejected' ? Object(result.reason).code : result.value)
        })
      })
    }
  })
  const headers = bearer({ sub: 'ada', role: 'user', tenant_id: 'acme' })
  const response = app.inject({ method: 'POST', url: '/late', headers, payload: {} })
  await begun.opened
  await replaceTenant(app, 'acme')
  door.open()
  t.strictSame((await response).json(), Array.from({ length: 3 }, () => 'TENANTRY_TENANT_UNKNOWN'))
  t.strictSame((await sql`select title from notes`.execute(app.db)).rows, [])
  t.equal(coded, 0)
})
