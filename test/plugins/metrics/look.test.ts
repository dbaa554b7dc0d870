import { Registry } from 'prom-client'
import t from 'tap'
import { createLook } from '../../../plugins/metrics/look.js'
import { createTenantSeries } from '../../../plugins/metrics/tenants.js'
import { samplesOf } from './exposition.js'

/** A clock that stands until it is set forward, and what went wrong. */
function setting () {
  const errors: unknown[] = []
  let time = 0
  return { errors, forward (ms: number) { time += ms }, options: { now: () => time, onError: (error: unknown) => { errors.push(error) } } }
}

t.test('a question is asked once in 5 seconds, whoever wants to know', async (t) => {
  const { options, forward } = setting()
  let asked = 0
  const look = createLook(async () => ++asked, options)
  t.strictSame(await Promise.all([look(), look(), look()]), [1, 1, 1])
  forward(4999)
  t.equal(await look(), 1)
  forward(1)
  t.equal(await look(), 2)
})

t.test('one that fails is told to nobody, and asked again', async (t) => {
  const { options, forward, errors } = setting()
  let fails = false
  const look = createLook(async () => { if (fails) throw new Error('away'); return 'there' }, options)
  t.equal(await look(), 'there')
  fails = true
  forward(5000)
  t.equal(await look(), null, 'what was told before is old')
  t.equal(await look(), null)
  t.equal(errors.length, 1, 'once in 5 seconds, too')
  fails = false
  forward(5000)
  t.equal(await look(), 'there')
})

t.test('one that hangs is waited for for a second, and not asked a second time', async (t) => {
  const { options, forward } = setting()
  let asked = 0
  let answer = (_value: string) => {}
  const look = createLook(() => {
    asked++
    return new Promise<string>((resolve) => { answer = resolve })
  }, options)
  t.equal(await look(), null)
  forward(60_000)
  t.strictSame(await Promise.all([look(), look()]), [null, null], 'at once, since its second is over')
  t.equal(asked, 1)
  answer('late')
  await new Promise((resolve) => setImmediate(resolve))
  const next = look()
  t.equal(asked, 2, 'what came late is old: it is asked anew')
  answer('there')
  t.equal(await next, 'there')
})

t.test('tenants have series of their own up to the bound, those that are deleted leave, and others take their place', async (t) => {
  const { options, forward } = setting()
  const registry = new Registry()
  const there = new Set(['acme', 'globex', 'other', 'umbrella'])
  let reachable = true
  const tenants = createTenantSeries({
    registry,
    max: 2,
    present: async (ids) => {
      if (!reachable) throw new Error('away')
      return ids.filter((id) => there.has(id))
    },
    ...options
  })
  const counts = async () => Object.fromEntries(samplesOf(t, await registry.metrics())
    .filter(({ name }) => name === 'tenantry_tenant_request_duration_seconds_count').map(({ labels: { tenant = '' }, value }) => [tenant, value]))
  const count = (...ids: string[]) => { for (const id of ids) tenants.of(id).observe(0.2) }

  count('acme', 'globex', 'other', 'umbrella', 'acme')
  t.strictSame(await counts(), { acme: 2, globex: 1, '(other)': 2 })
  there.delete('acme')
  reachable = false
  forward(5000)
  count('umbrella')
  t.strictSame(await counts(), { acme: 2, globex: 1, '(other)': 3 }, 'nobody leaves while it is not known')
  reachable = true
  forward(5000)
  t.strictSame(await counts(), { globex: 1, '(other)': 3 })
  count('other', 'umbrella')
  t.strictSame(await counts(), { globex: 1, '(other)': 4, other: 1 }, 'no tenant is taken for the others')
})
