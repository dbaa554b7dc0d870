import { setImmediate } from 'node:timers/promises'
import { test } from 'tap'
import { databaseBusy } from '../../../lib/database/failures.js'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createBacklogLimit } from '../../../plugins/queue/backlog-limit.js'
import { createBatches, type Item } from '../../../plugins/queue/batches.js'
import type { NewJob, Outcome } from '../../../plugins/queue/insert.js'

interface Call {
  readonly tenants: string[]
  readonly ids: string[]
  readonly tenant: string | undefined
  readonly resolve: (outcomes?: Outcome[]) => void
  readonly reject: (error: unknown) => void
}

/** Batches whose writes the test completes. */
function batches () {
  const calls: Call[] = []
  const { add, alone } = createBatches<Item>((items, tenant) =>
    new Promise((resolve, reject) => {
      calls.push({
        tenants: items.map(({ job }) => job.tenant),
        ids: items.map(({ job }) => job.id),
        tenant,
        resolve: (outcomes = items.map(() => 'sent')) => resolve(outcomes),
        reject
      })
    })
  )
  return { add, alone, calls }
}

/** Lets sent jobs start, and completed writes be reported. */
async function turn (): Promise<void> {
  for (let n = 0; n < 3; n++) await setImmediate()
}

function item (tenant: string, id = '', bytes = 100): Item {
  const job: NewJob = { id, tenant: tenantRef(tenant), task: 't', data: '{}', key: null, delay: 0, priority: 0, retryLimit: 0, retryDelay: 0, slot: null }
  return { job, bytes }
}

test('concurrent jobs are written together, at most 100 jobs and 1 MiB at a time', async (t) => {
  const { add, calls } = batches()
  const sent = Array.from({ length: 250 }, () => add(item('a')))
  await turn()
  t.same(calls.map(({ tenants }) => tenants.length), [100, 100], 'two writes are running, and the rest waits')
  calls[0]?.resolve()
  await turn()
  t.equal(calls[2]?.tenants.length, 50)
  for (const call of calls) call.resolve()
  t.same(new Set(await Promise.all(sent)), new Set(['sent']))

  const large = Array.from({ length: 3 }, () => add(item('a', '', 600_000)))
  await turn()
  t.same(calls.slice(3).map(({ tenants }) => tenants.length), [1, 1])
  for (let index = 3; index < 6; index++) {
    calls[index]?.resolve()
    await turn()
  }
  await Promise.all(large)
})

test("a tenant's flood delays no other: tenants take turns, and each has a bound of waiting jobs", async (t) => {
  const { add, calls } = batches()
  const flood = Array.from({ length: 16 }, () => add(item('a', '', 1_048_576)))
  await turn()
  t.equal(calls.length, 2)
  flood.push(add(item('a', '', 1_048_576)), add(item('a', '', 1_048_576)))
  await t.rejects(add(item('a')), { code: 'TENANTRY_DATABASE_BUSY' }, '16 MiB of them wait')
  const other = add(item('b', 'first'))
  calls[0]?.resolve()
  await turn()
  calls[1]?.resolve()
  await turn()
  t.ok(calls.slice(2, 4).some(({ tenants }) => tenants.includes('b')), 'in one of the next two writes')
  for (let index = 2; index < 20; index++) {
    calls[index]?.resolve()
    await turn()
  }
  t.equal(await other, 'sent')
  await Promise.all(flood)
})

test('a failure rejects only the calls that it concerns', async (t) => {
  const { add, calls } = batches()
  const sent = [add(item('a', 'good')), add(item('b', 'good')), add(item('a', 'bad')), add(item('c', 'good'))]
  const outcomes = Promise.allSettled(sent)
  await turn()
  calls[0]?.reject(new Error('one of them'))
  for (let index = 1; index < 8; index++) {
    await turn()
    const call = calls[index]
    t.ok(call === undefined || (call.tenant !== undefined && new Set(call.tenants).size === 1), 'again, each tenant separately')
    if (call?.ids.includes('bad') === true) call.reject(new Error(call.ids.join()))
    else call?.resolve()
  }
  t.match(await outcomes, [{ value: 'sent' }, { value: 'sent' }, { reason: { message: 'bad' } }, { value: 'sent' }])

  const lost = Promise.allSettled([add(item('a')), add(item('b'))])
  await turn()
  calls.at(-1)?.reject(failure('databaseUnavailable'))
  t.match(
    await lost,
    [{ reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } }, { reason: { code: 'TENANTRY_DATABASE_UNAVAILABLE' } }],
    'nothing is retried during a database outage'
  )
})

test("a deadlock or lock timeout that one tenant's jobs cause rejects no job of another", async (t) => {
  const { add, calls } = batches()
  const outcomes = Promise.allSettled([add(item('a', 'busy')), add(item('b', 'good'))])
  await turn()
  calls[0]?.reject(databaseBusy())
  await turn()
  t.match(calls.slice(1), [{ tenant: 'a', ids: ['busy'] }, { tenant: 'b', ids: ['good'] }])
  calls[1]?.reject(databaseBusy())
  calls[2]?.resolve()
  t.match(await outcomes, [{ reason: { code: 'TENANTRY_DATABASE_BUSY' } }, { value: 'sent' }])
})

test('jobs of a tenant that is being changed wait separately', async (t) => {
  const { add, calls } = batches()
  const first = [add(item('a', '1')), add(item('b', '2'))]
  await turn()
  calls[0]?.resolve(['held', 'sent'])
  t.equal(await first[1], 'sent')
  const later = [add(item('a', '3')), add(item('b', '4'))]
  await turn()
  t.match(calls.slice(1), [{ tenant: 'a', ids: ['1'] }, { tenant: undefined, ids: ['4'] }])
  calls[2]?.resolve()
  t.equal(await later[1], 'sent')
  calls[1]?.resolve(['unknown'])
  t.equal(await first[0], 'unknown')
  await turn()
  t.match(calls.slice(3), [{ tenant: undefined, ids: ['3'] }])
  calls[3]?.resolve()
  t.equal(await later[0], 'sent')
})

test('waiting jobs are counted occasionally, and never for a tenant that is known to be full', async (t) => {
  let looks = 0
  const jobs = new Map<string, number>()
  const waiting = async (tenant: string, max: number) => {
    looks++
    return Math.min(jobs.get(tenant) ?? 0, max)
  }
  const bound = createBacklogLimit({ max: 100_000, waiting })
  const take = async (tenant: string) => {
    await bound.take(tenantRef(tenant))
    jobs.set(tenant, (jobs.get(tenant) ?? 0) + 1)
  }
  for (let n = 0; n < 100_000; n++) await take('a')
  t.ok(looks < 200, `${looks} counts for 100,000 jobs`)
  for (let n = 0; n < 1000; n++) await t.rejects(take('a'), { code: 'TENANTRY_QUEUE_FULL' })
  t.ok(looks < 210, `${looks} looks`)
  await take('b')
  for (let n = 0; n < 200; n++) await take('')
  t.equal(jobs.get(''), 200, 'the platform has no bound')

  // Two processes of one database together do not exceed it by much.
  const others = [createBacklogLimit({ max: 1000, waiting }), createBacklogLimit({ max: 1000, waiting })]
  for (let n = 0; n < 3000; n++) {
    await others[n % 2]?.take(tenantRef('c')).then(() => jobs.set('c', (jobs.get('c') ?? 0) + 1), () => {})
  }
  t.ok(Number(jobs.get('c')) >= 1000 && Number(jobs.get('c')) <= 1010, String(jobs.get('c')))
})
