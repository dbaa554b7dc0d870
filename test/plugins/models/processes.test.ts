import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { startProgram } from '../../helpers/program.js'
import { testDocument, testEnv } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { agentOf, ask, begin, chunk, plans, wireProvider } from './app.js'

test(
  'two processes together admit as many calls as the plan allows, and one books the reservations of a killed one',
  { timeout: 240_000 },
  async (t) => {
    const { connectionString, query } = await postgresDatabase(t)
    const wire = await wireProvider(t, (response) => {
      begin(response)
      response.write(chunk('one two'))
    })
    const document = testDocument({ plans, agent: agentOf('local', wire.url) }, { provider: 'postgres', postgres: { connectionString } })
    const start = () => startProgram(t, 'test/programs/server.ts', { ...testEnv, TEST_DOCUMENT: JSON.stringify(document) })
    const [killed, other] = [await start(), await start()]
    await query("insert into tenantry.tenants (id, name, plan) values ('small', 'small', 'small')")
    const headers = { authorization: `Bearer ${signToken({ tenant_id: 'small', sub: 'ada' })}`, 'content-type': 'application/json' }
    const streams = await Promise.all(
      Array.from(
        { length: 30 },
        (_, index) =>
          fetch(`${(index % 2 === 0 ? killed : other).address}/llm/stream`, { method: 'POST', headers, body: JSON.stringify(ask('hello')) })
      )
    )
    t.equal(streams.filter(({ status }) => status === 200).length, 9, '110 tokens each of 1000')
    t.equal(streams.filter(({ status }) => status === 402).length, 21)
    const amount = async () => {
      const [row] = await query(
        "select coalesce(sum(amount), 0)::float8 as amount from tenantry.usage_counters where tenant_id = 'small' and counter = 'llm_tokens'"
      )
      return Number(row?.['amount'])
    }
    const ofKilled = streams.filter(({ status }, index) => status === 200 && index % 2 === 0).length
    t.equal(await amount(), 0)
    t.equal(await killed.stop('SIGKILL'), null)
    await Promise.all(streams.filter((_, index) => index % 2 === 1).map(({ body }) => body?.cancel()))
    const left = (9 - ofKilled) * 12
    await until('streams of disconnected readers are settled', async () => await amount() === left)
    await query(
      "update tenantry.usage_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.usage_reservations where tenant_id = 'small')"
    )
    await until('reservations of the killed process are booked', async () => await amount() === left + ofKilled * 110)
    await Promise.allSettled(streams.map(({ body }) => body?.locked === false ? body.cancel() : undefined))
    t.equal(await other.stop(), 0)
    t.same(await query('select from tenantry.usage_reservations where booked is null'), [])
  }
)
