/** Calls of routes within this process: an account builds few large results at a time, as over HTTP. */
import { test } from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/until.js'
import { open } from '../tools/app.js'
import { } from '../workflows/tools-app.js'

const large = 'x'.repeat(1_048_576)
const callOf = (tenant: string) => ({ auth: { sub: 'ada', tenant_id: tenant } satisfies Claims, ip: '192.0.2.1', tenant: null })

test('an account runs two calls of a large route at a time, and other accounts and routes do not wait', async (t) => {
  const { app } = await testApp(t, { plugins: { responses: {} } })
  const run = (tenant: string, route: string, work: () => Promise<string>) => app.responses.run(callOf(tenant), {}, route, work)
  t.equal(await run('acme', 'GET /large', async () => large), large)

  const door = gate()
  const begun: string[] = []
  const held = (tenant: string, route: string) =>
    run(tenant, route, async () => {
      begun.push(`${tenant} ${route}`)
      await door.opened
      return large
    })
  const calls = Array.from({ length: 5 }, () => held('acme', 'GET /large'))
  calls.push(held('globex', 'GET /large'), held('acme', 'GET /other'))
  await until('those that may run have begun', () => begun.length === 4)
  t.strictSame([...begun].sort(), ['acme GET /large', 'acme GET /large', 'acme GET /other', 'globex GET /large'])
  door.open()
  t.strictSame((await Promise.all(calls)).map(({ length }) => length), calls.map(() => large.length))
  t.equal(begun.length, 7)
})

test('a call within a call of a large route does not wait for its own end', async (t) => {
  const { app } = await testApp(t, { plugins: { responses: {} } })
  const run = (call: object, within: object, work: () => Promise<string>) =>
    app.responses.run(Object.assign(call, callOf('acme')), within, 'GET /large', work)
  await run({}, {}, async () => large)
  const outer = [{}, {}]
  const results = await Promise.all(outer.map((call) => run(call, {}, () => run({}, call, async () => large))))
  t.strictSame(results.map(({ length }) => length), [large.length, large.length])
})

test('a call that fails leaves its place', async (t) => {
  const { app } = await testApp(t, { plugins: { responses: {} } })
  const run = (work: () => Promise<string>) => app.responses.run(callOf('acme'), {}, 'GET /large', work)
  await run(async () => large)
  for (let index = 0; index < 4; index++) await t.rejects(run(() => Promise.reject(new Error('failed'))), /failed/)
  t.equal(await run(async () => 'small'), 'small')
})

test('calls of tools are such calls', async (t) => {
  const { app, as } = await open(t)
  const ran: string[] = []
  const { run } = app.responses
  Object.assign(app.responses, {
    run: (...[call, within, route, work]: Parameters<typeof run>) => {
      ran.push(route)
      return run(call, within, route, work)
    }
  })
  t.match(await as('acme')('call', { name: 'get_notes' }), { status: 200 })
  t.strictSame(ran, ['GET /notes'])
})
