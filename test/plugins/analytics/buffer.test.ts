import type { FastifyBaseLogger } from 'fastify'
import Fastify from 'fastify'
import t from 'tap'
import { failure } from '../../../lib/errors.js'
import { platformRef } from '../../../lib/identity/tenant-ref.js'
import { type Batch, type BufferOptions, createBuffer } from '../../../plugins/analytics/buffer.js'
import { RouteLines } from '../../../plugins/analytics/lines.js'
import { fakeClock } from '../../helpers/clock.js'
import { until } from '../../helpers/until.js'
import { counted, hour } from './app.js'

/** A logger that records its messages. */
function memoryLog (): { log: FastifyBaseLogger, lines: { level: number, msg: string, requests?: number }[] } {
  const lines: { level: number, msg: string, requests?: number }[] = []
  const { log } = Fastify({
    logger: {
      level: 'info',
      stream: {
        write: (line: string) => {
          lines.push(JSON.parse(line))
        }
      }
    }
  })
  return { log, lines }
}

/** A buffer whose batches the test inspects; each write waits for the result of `write`. */
function buffered (options: Partial<BufferOptions> & { write?: (batch: Batch) => Promise<void> } = {}) {
  const { write = async () => {}, ...rest } = options
  const batches: Batch[] = []
  const { log, lines } = memoryLog()
  const clock = fakeClock(Date.parse('2026-06-01T12:30:00Z'))
  const buffer = createBuffer({
    write: (batch) => {
      batches.push(batch)
      return write(batch)
    },
    log,
    now: clock.now,
    flushInterval: 3_600_000,
    maxSize: 100_000,
    pause: 0,
    ...rest
  })
  return { buffer, batches, lines, clock }
}

function requestsIn (batches: readonly Batch[]): number {
  return batches.flatMap(({ sums }) => sums).flatMap(({ buckets }) => [...buckets.values()]).reduce((sum, count) => sum + count, 0)
}

const things = new RouteLines('/things')
const unavailable = async () => {
  throw failure('databaseUnavailable')
}

t.test('requests are summed up by hour, tenant and line', async (t) => {
  const { buffer, batches, clock } = buffered()
  for (const tenant of ['acme', 'acme', 'globex', '']) buffer.count(counted(tenant), things.of('GET', 200), 1)
  buffer.count(counted('acme'), things.of('GET', 200), 900)
  buffer.count(counted('acme'), things.of('GET', 500), 1)
  buffer.count(counted('acme'), things.of('POST', 200), 1)
  clock.forward(hour / 2)
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  clock.forward(-hour)
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.flush()
  const shown = ({ number, hour, sums }: Batch) => [
    number,
    new Date(hour).toISOString().slice(11, 16),
    ...sums.map(({ tenant, line, buckets }) => `${tenant.split(' ', 1).join()} ${line.key} ${[...buckets.values()].join('+')}`)
  ]
  t.strictSame(batches.map(shown), [
    [
      1,
      '12:00',
      'acme GET 200 /things 3+1',
      'acme GET 500 /things 1',
      'acme POST 200 /things 1',
      'globex GET 200 /things 1',
      ' GET 200 /things 1'
    ],
    [2, '13:00', 'acme GET 200 /things 1']
  ])
  await buffer.flush()
  t.equal(batches.length, 2, 'written requests are not written again')
})

t.test('enough waiting requests trigger a write', async (t) => {
  const { buffer, batches } = buffered({ maxSize: 10 })
  for (let request = 0; request < 9; request++) buffer.count(platformRef, things.of('GET', 200), 1)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(batches.length, 0)
  buffer.count(platformRef, things.of('GET', 200), 1)
  await until('ten are written', () => requestsIn(batches) === 10)
})

t.test('the next write waits for the pause, unless there are many different sums', async (t) => {
  const { buffer, batches } = buffered({ maxSize: 10, pause: 3_600_000 })
  for (let request = 0; request < 10; request++) buffer.count(platformRef, things.of('GET', 200), 1)
  await until('the first ones are written at once', () => batches.length === 1)
  for (let turn = 0; turn < 20; turn++) {
    for (let request = 0; request < 10; request++) buffer.count(platformRef, things.of('GET', 200), 1)
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(batches.length, 1)
  for (let tenant = 0; tenant < 1000; tenant++) buffer.count(counted(`tenant-${tenant}`), things.of('GET', 200), 1)
  await until('many different sums are written', () => requestsIn(batches) >= 10 + 200 + 999)
})

t.test('waiting requests are written after the interval', async (t) => {
  const { buffer, batches } = buffered({ flushInterval: 1 })
  buffer.count(platformRef, things.of('GET', 200), 1)
  t.equal(batches.length, 0)
  await until('it is written', () => requestsIn(batches) === 1)
})

t.test('requests that arrive during a write wait for the next batch, which follows at once if there are enough', async (t) => {
  const waiting: (() => void)[] = []
  const { buffer, batches } = buffered({ maxSize: 1, write: () => new Promise((resolve) => waiting.push(resolve)) })
  buffer.count(platformRef, things.of('GET', 200), 1)
  await until('the first is being written', () => waiting.length === 1)
  for (let request = 0; request < 500; request++) buffer.count(platformRef, things.of('GET', 200), 1)
  t.equal(batches.length, 1, 'one statement at a time')
  waiting[0]?.()
  await until('the others are being written', () => waiting.length === 2)
  waiting[1]?.()
  await buffer.flush()
  t.strictSame(batches.map((batch) => requestsIn([batch])), [1, 500])
})

t.test('a failed batch is kept, and retried under the same number', async (t) => {
  let reachable = false
  const { buffer, batches, lines } = buffered({ write: () => reachable ? Promise.resolve() : unavailable() })
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.flush()
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.flush()
  await buffer.flush()
  t.strictSame(lines.map(({ msg }) => msg), ['the analytics of requests could not be written; they are kept in memory'], 'the failure is logged once')
  reachable = true
  await buffer.flush()
  t.strictSame(batches.map(({ number }) => number), [1, 1, 1, 1, 2])
  t.equal(new Set(batches.slice(0, 4)).size, 1, 'the very same batch')
  t.equal(requestsIn(batches.slice(3)), 2)
  t.equal(lines.at(-1)?.msg, 'the analytics of requests are written again')
})

t.test('requests do not fill the memory during a database outage', async (t) => {
  let reachable = false
  const { buffer, batches, lines } = buffered({ maxSize: 1000, write: () => reachable ? Promise.resolve() : unavailable() })
  const routes = Array.from({ length: 500 }, (_, index) => new RouteLines(`/route-${index}`, true))
  for (let tenant = 0; tenant < 300; tenant++) {
    for (const route of routes) buffer.count(counted(`tenant-${tenant}`), route.of('GET', 200), 1)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const tries = batches.length
  t.ok(tries <= 2, `${tries} attempts: the next one belongs to the timer`)
  reachable = true
  await buffer.flush()
  const written = batches.slice(tries)
  const sums = written.flatMap(({ sums }) => sums)
  t.ok(sums.length > 19_000 && sums.length <= 21_000, `${sums.length} sums`)
  t.ok(written.every(({ sums }) => sums.length <= 1000), 'in statements of bounded size')
  t.equal(sums.filter(({ tenant }) => tenant === counted('tenant-1')).length, 201, '200 lines of one tenant, and the others')
  const lost = lines.find(({ msg }) => msg.startsWith('requests are missing'))
  t.equal(requestsIn(written) + (lost?.requests ?? 0), 150_000, 'the loss is logged')
})

t.test('a batch that the database rejects is dropped, so that later ones are written', async (t) => {
  const { buffer, batches, lines } = buffered({
    write: async ({ number }) => {
      if (number === 1) throw new Error('of no use')
    }
  })
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  for (let flush = 0; flush < 3; flush++) await buffer.flush()
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.flush()
  t.strictSame(batches.map(({ number }) => number), [1, 1, 1, 2])
  t.match(lines.map(({ level, requests }) => [level, requests]), [[40, undefined], [50, 1], [30, undefined]])
})

t.test('waiting requests are written at the end, and a failure is logged', async (t) => {
  const reached = buffered()
  reached.buffer.count(counted('acme'), things.of('GET', 200), 1)
  await reached.buffer.close()
  t.equal(requestsIn(reached.batches), 1)

  const { buffer, lines } = buffered({ write: unavailable })
  for (let request = 0; request < 3; request++) buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.flush()
  buffer.count(counted('acme'), things.of('GET', 200), 1)
  await buffer.close()
  t.match(lines.at(-1), { level: 50, requests: 4 })
})
