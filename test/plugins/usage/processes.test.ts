import autocannon from 'autocannon'
import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type Program, startProgram } from '../../helpers/program.js'
import { testDocument, testEnv } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { remoteCaller } from '../../http/caller.js'
import { smallPlans } from './app.js'

test(
  "two processes together admit the plan's amount; a kill loses only the last second of API calls, a stop nothing",
  { timeout: 240_000 },
  async (t) => {
    const { connectionString, query } = await postgresDatabase(t)
    const document = testDocument({ plans: smallPlans, rateLimit: { enabled: false } }, {
      provider: 'postgres',
      postgres: { connectionString }
    })
    const start = () => startProgram(t, 'test/programs/usage.ts', { ...testEnv, TEST_DOCUMENT: JSON.stringify(document) })
    const [killed, stopped] = [await start(), await start()]
    await query(
      "insert into tenantry.tenants (id, name, plan) values ('acme', 'acme', 'seven'), ('globex', 'globex', 'much'), ('initech', 'initech', 'much')"
    )
    const tokenOf = (tenant: string) => signToken({ tenant_id: tenant, sub: 'ada' })
    const callerOf = (program: Program, tenant: string) => remoteCaller(t, program.address, { token: tokenOf(tenant) })
    const amount = async (tenant: string, counter: string) => {
      const [row] = await query('select sum(amount)::float8 as amount from tenantry.usage_counters where tenant_id = $1 and counter = $2', [
        tenant,
        counter
      ])
      return Number(row?.['amount'] ?? 0)
    }
    const calls = async (tenant: string) => {
      const [row] = await query('select sum(api_calls)::float8 as calls from tenantry.usage_requests where tenant_id = $1', [tenant])
      return Number(row?.['calls'] ?? 0)
    }
    async function load (program: Program, tenant: string, requests: number): Promise<number> {
      const { '2xx': served, non2xx } = await autocannon({
        url: `${program.address}/tenant/info`,
        headers: { authorization: `Bearer ${tokenOf(tenant)}` },
        connections: 10,
        amount: requests
      })
      t.same([served, non2xx], [requests, 0])
      return served
    }

    const both = [callerOf(killed, 'acme'), callerOf(stopped, 'acme')]
    for (const [counter, one] of [['llm_tokens', 1], ['storage_bytes', 1_048_576], ['ai_cost', 1_000_000]]) {
      const responses = (await Promise.all(both.map((ask) =>
        Promise.all(Array.from({ length: 50 }, () => ask('POST /test/reserve', { body: { counter, amount: one } })))
      ))).flat()
      const count = (status: number) => responses.filter((response) => response.status === status).length
      t.same([count(200), count(402)], [7, 93], `${counter}: of a hundred at a time seven`)
      t.match(responses.find(({ status }) => status === 402)?.body, {
        error: 'Usage limit exceeded',
        code: 'TENANTRY_PLAN_LIMIT',
        allowed: false,
        upgrade: { plan: 'eight', limit: 8 }
      })
    }

    let sent = (await Promise.all([load(killed, 'globex', 600), load(stopped, 'globex', 300)])).reduce((sum, served) => sum + served)
    const reserve = async (body: object) => {
      t.equal((await callerOf(killed, 'globex')('POST /test/reserve', { body })).status, 200)
      sent++
    }
    for (let index = 0; index < 10; index++) await reserve({ counter: 'llm_tokens', amount: 100, used: 30 + index })
    await reserve({ counter: 'storage_bytes', amount: 500, used: 400 })
    await reserve({ counter: 'llm_tokens', amount: 1000 })
    await reserve({ counter: 'storage_bytes', amount: 1000 })
    await until('counts are written automatically', async () => await calls('globex') === sent)
    const last = await load(killed, 'globex', 500)
    t.equal(await killed.stop('SIGKILL'), null)

    const tokens = 10 * 30 + 45
    t.same([await amount('globex', 'llm_tokens'), await amount('globex', 'storage_bytes')], [tokens, 400], 'booked amounts are stored')
    const counted = await calls('globex')
    t.ok(counted >= sent && counted <= sent + last, `${sent + last - counted} of the last ${last} requests are not`)
    await query(
      "update tenantry.usage_instances set seen_at = seen_at - interval '30 seconds' where id in (select instance_id from tenantry.usage_reservations where tenant_id = 'globex')"
    )
    await until(
      "a dead process's reservations are booked by the other process, since a provider may have charged them",
      async () => await amount('globex', 'llm_tokens') === tokens + 1000
    )
    t.equal(await amount('globex', 'storage_bytes'), 400, 'amounts that were only reserved are not stored')

    const final = await load(stopped, 'initech', 600)
    t.equal(await stopped.stop(), 0)
    t.equal(await calls('initech'), final, 'to the last request')
    t.same(await query('select from tenantry.usage_reservations where booked is null'), [])
  }
)
