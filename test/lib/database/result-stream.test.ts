import { EventEmitter, once } from 'node:events'
import { PassThrough } from 'node:stream'
import pg from 'pg'
import { test } from 'tap'
import { connectPostgres } from '../../../lib/database/postgres.js'
import { guardResults, ResultReader, type ResultStream, WholeMessages } from '../../../lib/database/result-stream.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { holdInPause } from '../../helpers/pauses.js'
import { postgresDatabase, postgresSection } from '../../helpers/postgres.js'
import { startEventLoop } from '../concurrency/controlled-event-loop.js'
import { openEngine } from './open.js'

/** A flowing stream whose chunks the test hands over one by one. */
class Chunks extends EventEmitter {
  destroyed = false
  flowing = true
  left = 0

  pause (): void {
    this.flowing = false
  }

  resume (): void {
    this.flowing = true
    this.flow()
  }

  flow (): void {
    while (this.flowing && this.left > 0) {
      this.left--
      this.emit('data', Buffer.alloc(65_536))
    }
  }
}

function readerOf (
  stream: Chunks & ResultStream,
  read: (chunk: Buffer) => void,
  yielderOf: ConstructorParameters<typeof ResultReader>[1]
): ResultReader {
  stream.on('data', read)
  return new ResultReader(stream, yielderOf)
}

test('a large response is read in turns, in order and completely', async (t) => {
  const loop = startEventLoop()
  const stream = new Chunks()
  let read = 0
  const inRound: number[] = []
  const reader = readerOf(stream, () => {
    read++
    loop.spend(1)
    inRound[loop.round] = (inRound[loop.round] ?? 0) + 1
  }, () => loop.turns.yielder('tenant a'))
  stream.left = 100
  stream.flow()
  t.ok(read < 100, `${read} chunks were read at once`)
  const first = read
  while (await loop.turn()) loop.time += 1
  t.equal(read, 100)
  t.ok(inRound.slice(1).every((count) => count <= 2), 'then at most two in a round')
  reader.ended()
  stream.left = 7
  stream.flow()
  t.equal(read, 107, 'a small response is read at once')
  t.ok(first >= 7, 'so is the beginning of a large one')
})

test('reading stops when the connection of a waiting response is lost', async (t) => {
  const loop = startEventLoop()
  const stream = new Chunks()
  let read = 0
  readerOf(stream, () => {
    read++
    loop.spend(1)
  }, () => loop.turns.yielder('tenant a'))
  stream.left = 100
  stream.flow()
  const before = read
  stream.destroyed = true
  for (let round = 0; round < 20; round++) await loop.turn()
  t.equal(read, before)
})

test('a large response of a tenant with long work waits, and other responses do not', async (t) => {
  const engine = await openEngine(t, await postgresSection(t))
  const large = (tenant: string) => engine.text({ text: "select repeat('x', 3000000)" }, [], { tenant: tenantRef(tenant) })
  const pause = holdInPause(t, 'busy')
  let isRead = false
  const waiting = large('busy').finally(() => {
    isRead = true
  })
  t.equal((await large('other'))?.length, 3_000_000, 'a large response of another tenant')
  t.equal(await engine.text({ text: "select 'small'" }, [], { tenant: tenantRef('busy') }), 'small', 'a small response of the same tenant')
  t.notOk(isRead)
  pause.end()
  t.equal(await waiting, 'x'.repeat(3_000_000))
})

test('an error thrown by a response listener ends its connection, not the process', async (t) => {
  const stream = new PassThrough()
  const heard: string[] = []
  stream.on('data', (chunk) => {
    heard.push(String(chunk))
    if (heard.length === 2) throw new RangeError('Cannot create a string longer than 0x1fffffe8 characters')
  })
  guardResults(stream)
  const ended = once(stream, 'error')
  stream.write('one')
  stream.write('two')
  const [error] = await ended
  t.match(error, { message: /^Connection terminated/, cause: { name: 'RangeError' } })
  t.strictSame(heard, ['one', 'two'])
})

test('a statement with an unreadable response fails, and the next one gets another connection', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const { pool } = connectPostgres({ connectionString })
  t.teardown(() => pool.end())
  const client = await pool.connect()
  client.on('error', () => {})
  // pg's own parsing of the response throws, as it does if the response is longer than a string can be.
  const query = new pg.Query('select 1')
  Object.assign(query, {
    handleDataRow () {
      throw new RangeError('Cannot create a string longer than 0x1fffffe8 characters')
    }
  })
  const failed = once(query, 'error')
  client.query(query)
  t.match((await failed)[0], { message: /^Connection terminated/ })
  client.release(true)
  t.strictSame((await pool.query('select 2 as n')).rows, [{ n: 2 }])
})

/** A message of PostgreSQL with a body of that many bytes. */
function message (length: number, fill: number): Buffer {
  const bytes = Buffer.alloc(5 + length, fill)
  bytes.write('D')
  bytes.writeUInt32BE(4 + length, 1)
  return bytes
}

function deliveredOf (bytes: Buffer, chunkSize: number): Buffer[] {
  const delivered: Buffer[] = []
  const messages = new WholeMessages((part) => delivered.push(part))
  for (let start = 0; start < bytes.length; start += chunkSize) messages.add(bytes.subarray(start, start + chunkSize))
  return delivered
}

const large = [message(300_000, 2), message(1_000_000, 4)]
const [first, second] = large
const bytes = Buffer.concat([message(0, 1), message(200_000, 1), first!, message(1, 3), message(0, 3), second!, message(20, 5)])

for (const chunkSize of [3, 1000, 4096, 65_536, 65_537, 400_000, bytes.length]) {
  test(`all bytes arrive in order from chunks of ${chunkSize} bytes`, (t) => {
    t.ok(Buffer.concat(deliveredOf(bytes, chunkSize)).equals(bytes))
    t.end()
  })
}

test('a large message arrives in one buffer, and small ones arrive as they come', (t) => {
  const delivered = deliveredOf(bytes, 65_536)
  for (const one of large) t.ok(delivered.some((part) => part.equals(one)), `${one.length} bytes`)
  t.ok(delivered[0]?.equals(bytes.subarray(0, 65_536)))
  t.end()
})

test('a large message whose header is split between chunks arrives in one buffer', (t) => {
  const [before, one] = [message(10, 1), message(300_000, 2)]
  for (const split of [1, 2, 3, 4]) {
    const delivered: Buffer[] = []
    const messages = new WholeMessages((part) => delivered.push(part))
    const all = Buffer.concat([before, one])
    messages.add(all.subarray(0, before.length + split))
    messages.add(all.subarray(before.length + split, 100_000))
    messages.add(all.subarray(100_000))
    t.strictSame(delivered.map(({ length }) => length), [before.length, one.length], `${split} bytes of the header`)
    t.ok(Buffer.concat(delivered).equals(all))
  }
  t.end()
})
