/** Uses that are repeated with their key. */
import { sql } from 'kysely'
import { test } from 'tap'
import { untilBlocked } from '../../helpers/locks.js'
import { postgresSection } from '../../helpers/postgres.js'
import { testServers } from '../../helpers/server.js'
import { caller, refused, type Reply } from '../../http/caller.js'
import { isReplay, pass, tenants, tokenOf, under } from '../idempotency/world.js'
import { rule } from './app.js'

const path = '/tenant/limits/resources'
const track = `POST ${path}/track`
const body = { userId: 'uma', resource: 'llm', metric: 'tokens', amount: 2, role: 'user' }

test('a use that is repeated with its key is counted once', async (t) => {
  const [here, there] = await testServers(t, {}, { engine: await postgresSection(t), tenants })
  const [acme, other] = [here, there].map((app) => caller(t, app, { token: tokenOf('acme') }))
  const used = async () => JSON.parse((await acme!(`GET ${path}/usage?userId=uma&role=user`)).text)[0].current
  t.equal((await acme!(`PUT ${path}`, { body: [rule({ limit: 10 })] })).status, 200)

  const first = await acme!(track, { body, ...under('one') })
  t.match(first, { status: 200, body: { allowed: true, usage: { current: 2, limit: 10 } } })
  const again = await other!(track, { body, ...under('one') })
  t.ok(isReplay(again), 'on another server')
  t.equal(again.text, first.text)
  t.equal(await used(), 2)
  refused(t, await acme!(track, { body: { ...body, amount: 3 }, ...under('one') }), 409, 'IDEMPOTENCY_MISMATCH')

  const asked = Array.from(
    { length: 20 },
    (_none, index): Promise<Reply> => [acme, other][index % 2]!(track, { body, ...under('parallel') })
  )
  const done = (await Promise.all(asked)).filter((response) => response.status === 200 && !isReplay(response))
  t.equal(done.length, 1, 'one of several parallel uses counts')
  t.equal(await used(), 4)

  // The process died after the commit.
  await sql`update tenantry.idempotency_keys set state = 'written', status = null, headers = null where state = 'answered'`.execute(here.db)
  await pass(here, 121)
  refused(t, await acme!(track, { body, ...under('one') }), 409, 'IDEMPOTENCY_ANSWER_LOST')
  t.equal(await used(), 4)

  const large = { ...body, amount: 7 }
  refused(t, await acme!(track, { body: large, ...under('large') }), 402, 'RESOURCE_LIMIT')
  t.equal((await acme!(`PUT ${path}`, { body: [rule({ limit: 11 })] })).status, 200)
  t.match(
    await acme!(track, { body: large, ...under('large') }),
    { status: 200, headers: { 'idempotency-replayed': undefined } },
    'a rejection is not stored'
  )
  t.equal(await used(), 11)
})

test('a use whose key was taken over is not counted', async (t) => {
  const [app] = await testServers(t, {}, { engine: await postgresSection(t), tenants })
  const acme = caller(t, app, { token: tokenOf('acme') })
  await acme(`PUT ${path}`, { body: [rule({ limit: 10 })] })
  let slow: Promise<Reply> | undefined
  await app.db.transaction().execute(async (transaction) => {
    await sql`lock table tenantry.resource_usage in share mode`.execute(transaction)
    slow = acme(track, { body, ...under('slow') })
    await untilBlocked(app.db, slow)
    await sql`update tenantry.idempotency_keys set holder = gen_random_uuid()`.execute(app.db)
  })
  refused(t, await slow!, 409, 'IDEMPOTENCY_RUNNING')
  t.same((await sql`select 1 from tenantry.resource_usage`.execute(app.db)).rows, [])
})
