/**
 * Measures what realtime costs. `npm run bench:realtime`. Options:
 *   --parts a,b    which of memory, latency, writes, stalled (default: all)
 *   --sockets N    sockets of the part memory (default 5000)
 *   --seconds N    duration of the part latency (default 20)
 *   --rounds N     slices of each side of writes and stalled (default 15)
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import WebSocket from 'ws'
import { signToken } from '../test/helpers/tokens.js'
import { startDatabase } from './database.js'
import { markdownTable, median } from './statistics.js'
import type { Subject } from './subject.js'
import { startSubject } from './subject.js'

const { values } = parseArgs({
  options: {
    parts: { type: 'string', default: 'memory,latency,writes,stalled' },
    sockets: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '15' }
  }
})
const parts = values.parts.split(',')
const [sockets, seconds, rounds] = [Number(values.sockets), Number(values.seconds), Number(values.rounds)]

const tenantCount = 50
const tenants = Array.from({ length: tenantCount }, (_, index) => `t${index}`)
const watchers = 1000 // sockets of the part latency
const writesPerSecond = 500
const tick = 10 // ms between the batches of writes
const sliceWrites = 1000
const secret = 'a secret of the benchmark of realtime'
const at = (sorted: readonly number[], share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? NaN

const database = await startDatabase()
const subjects: Subject[] = []
try {
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`)
  const first = await start()
  await query("insert into tenantry.tenants (id, name, plan) select id, id, 'bench' from unnest($1::text[]) id", [tenants])
  if (parts.includes('memory')) await measureMemory()
  if (parts.includes('writes')) await measureWrites(first)
  const second = await start()
  if (parts.includes('latency')) await measureLatency([first, second])
  if (parts.includes('stalled')) await measureStalled([first, second])
} finally {
  for (const subject of subjects) await subject.stop()
  await database.stop()
}

async function start (): Promise<Subject> {
  const subject = await startSubject('realtime', { connectionString: database.connectionString, jwtSecret: secret })
  subjects.push(subject)
  return subject
}

async function query (text: string, values: unknown[] = []): Promise<void> {
  const client = new pg.Client({ connectionString: database.connectionString })
  await client.connect()
  await client.query(text, values)
  await client.end()
}

function tokenOf (tenant: string): string {
  return signToken({ sub: 'bench', tenant_id: tenant }, { expiresIn: 86_400, key: secret })
}

/** A socket that is ready and has subscribed. */
async function open ({ url }: Subject, tenant: string, watches: boolean, heard: (text: string) => void = () => {}): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/realtime`, ['tenantry', `bearer.${tokenOf(tenant)}`], {
    perMessageDeflate: false
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', (code) => reject(new Error(`closed with ${code}`)))
    socket.on('message', (data) => {
      const text = String(data)
      if (text.startsWith('{"type":"change"')) return heard(text)
      if (text.startsWith('{"type":"ready"')) {
        if (watches) socket.send('{"type":"watch","table":"notes","ref":1}')
        else resolve()
      } else if (text.startsWith('{"type":"ack"')) resolve()
      else if (text.startsWith('{"type":"error"')) reject(new Error(text))
    })
  })
  return socket
}

async function inTurns<Value> (count: number, make: (index: number) => Promise<Value>, atOnce = 50): Promise<Value[]> {
  const made: Value[] = []
  let next = 0
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let index = next++; index < count; index = next++) made[index] = await make(index)
  }))
  return made
}

async function close (all: readonly WebSocket[]): Promise<void> {
  await Promise.all(all.map(async (socket) => {
    if (socket.readyState === WebSocket.CLOSED) return
    const closed = once(socket, 'close')
    socket.close()
    await closed
  }))
}

async function measureMemory (): Promise<void> {
  const rows: string[][] = []
  for (const watches of [false, true]) {
    const server = await start()
    const held = async (): Promise<{ heap: number, rss: number }> => JSON.parse(await (await fetch(`${server.url}/-/process`)).text())
    // The first ones warm up the code.
    await close(await inTurns(500, (index) => open(server, tenants[index % tenantCount] ?? '', watches)))
    await held()
    await sleep(1000)
    const before = await held()
    const all = await inTurns(sockets, (index) => open(server, tenants[index % tenantCount] ?? '', watches))
    await sleep(3000)
    const after = await held()
    const { cpu } = await server.usage()
    await sleep(5000)
    const idle = ((await server.usage()).cpu - cpu) / 5e6 * 100
    const each = (name: 'heap' | 'rss') => ((after[name] - before[name]) / sockets / 1024).toFixed(1)
    rows.push([watches ? 'with a watch' : 'ready', String(sockets), each('rss'), each('heap'), '≤ 25', `${idle.toFixed(1)} %`])
    await close(all)
    await server.stop()
    subjects.splice(subjects.indexOf(server), 1)
  }
  console.log(
    `Sockets of one process.\n\n${markdownTable(['sockets', 'number', 'resident KB each', 'heap KB each', 'target', 'CPU at rest'], rows)}\n`
  )
}

/** Writes rows by SQL, like a server. Returns the commit time of each, by title. */
async function write (perSecond: number, ms: number, body: string): Promise<Map<string, number>> {
  const committed = new Map<string, number>()
  const clients = await Promise.all(Array.from({ length: 8 }, async () => {
    const client = new pg.Client({ connectionString: database.connectionString })
    await client.connect()
    await client.query("select set_config('app.tenant_id', '*', false)")
    return client
  }))
  let due = 0
  const queue: string[] = []
  const begin = performance.now()
  let isOver = false
  const work = clients.map(async (client) => {
    for (;;) {
      const title = queue.shift()
      if (title === undefined) {
        if (isOver) return
        await sleep(1)
        continue
      }
      await client.query({
        name: 'write',
        text: 'insert into notes (id, tenant_id, title, body) values ($1, $2, $3, $4)',
        values: [randomUUID(), tenants[committed.size % tenantCount], title, body]
      })
      committed.set(title, performance.now())
    }
  })
  while (performance.now() - begin < ms) {
    const until = Math.floor((performance.now() - begin) / 1000 * perSecond)
    for (; due < until; due++) queue.push(`w${due}.`)
    await sleep(tick)
  }
  isOver = true
  await Promise.all(work)
  await Promise.all(clients.map((client) => client.end()))
  return committed
}

interface Delays {
  readonly all: number[]
  readonly writes: number
  readonly messages: number
}

/** Milliseconds from commit to client, and the number of lost messages. */
async function delaysOf (receivers: { heard: (text: string) => void }[], perSecond: number, ms: number, body: string): Promise<Delays> {
  const arrivals: [title: string, at: number][] = []
  for (const receiver of receivers) {
    receiver.heard = (text) => {
      const from = text.indexOf('"title":"') + 9
      arrivals.push([text.slice(from, text.indexOf('"', from)), performance.now()])
    }
  }
  const committed = await write(perSecond, ms, body)
  const expected = committed.size * receivers.length / tenantCount
  const end = performance.now() + 20_000
  while (arrivals.length < expected && performance.now() < end) await sleep(20)
  if (arrivals.length < expected) console.log(`${expected - arrivals.length} of ${expected} messages did not come`)
  return {
    all: arrivals.map(([title, at]) => Math.max(0, at - (committed.get(title) ?? NaN))).sort((left, right) => left - right),
    writes: committed.size,
    messages: arrivals.length
  }
}

async function measureLatency (servers: readonly Subject[]): Promise<void> {
  const receivers = Array.from({ length: watchers }, () => ({ heard: (_text: string) => {} }))
  const all = await inTurns(
    watchers,
    (index) =>
      open(
        servers[index % servers.length]!,
        tenants[Math.floor(index / 2) % tenantCount] ?? '',
        true,
        (text) => receivers[index]?.heard(text)
      )
  )
  await delaysOf(receivers, writesPerSecond, 3000, 'x'.repeat(200))
  const before = await Promise.all(servers.map((server) => server.usage()))
  const { all: delays, writes, messages } = await delaysOf(receivers, writesPerSecond, seconds * 1000, 'x'.repeat(200))
  const after = await Promise.all(servers.map((server) => server.usage()))
  const busy = after.map(({ cpu }, index) => `${((cpu - (before[index]?.cpu ?? 0)) / seconds / 1e4).toFixed(0)} %`).join(', ')
  console.log(
    `Commit to client, ${watchers} sockets over ${servers.length} instances, ${tenantCount} tenants, ${(writes / seconds).toFixed(0)} writes a second.\n\n${
      markdownTable(['messages', 'p50 ms', 'p99 ms', 'highest ms', 'target p99', 'CPU of the instances'], [[
        String(messages),
        at(delays, 0.5).toFixed(0),
        at(delays, 0.99).toFixed(0),
        at(delays, 1).toFixed(0),
        '≤ 250',
        busy
      ]])
    }\n`
  )
  await close(all)
}

/** Microseconds of CPU for a write. */
interface Used {
  readonly server: number
  readonly postgres: number
}

function total (used?: Used): number {
  return (used?.server ?? NaN) + (used?.postgres ?? NaN)
}

/** The cost of writes to three tables, in alternating slices. A client watches the third table. */
async function measureWrites (server: Subject): Promise<void> {
  const cpu = async (): Promise<Used> => ({ server: (await server.usage()).cpu, postgres: await database.cpu() ?? 0 })
  const slice = async (table: string, isHeard: boolean): Promise<Used> => {
    const arrived = { count: 0 }
    const sockets = isHeard
      ? [
          await open(server, 't0', true, () => {
            arrived.count++
          })
        ]
      : []
    const headers = { authorization: `Bearer ${tokenOf('t0')}`, 'content-type': 'application/json' }
    const before = await cpu()
    let left = sliceWrites
    await Promise.all(Array.from({ length: 8 }, async () => {
      while (left-- > 0) {
        const response = await fetch(`${server.url}/${table}`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ title: 'a title', body: 'x'.repeat(200) })
        })
        if (response.status !== 201) throw new Error(await response.text())
        await response.arrayBuffer()
      }
    }))
    const expected = isHeard ? sliceWrites : 0
    while (arrived.count < expected) await sleep(5)
    const after = await cpu()
    await close(sockets)
    return { server: (after.server - before.server) / sliceWrites, postgres: (after.postgres - before.postgres) / sliceWrites }
  }
  const sides = { unlisted: () => slice('plain', false), unheard: () => slice('unheard', false), heard: () => slice('notes', true) }
  const figures: Record<keyof typeof sides, Used[]> = { unlisted: [], unheard: [], heard: [] }
  const names = Object.keys(sides) as (keyof typeof sides)[]
  for (let round = -2; round < rounds; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round + names.length) % names.length]!
      const used = await sides[name]()
      if (round >= 0) figures[name].push(used)
    }
  }
  const ratio = (name: keyof typeof sides, base: keyof typeof sides): string => {
    const ratios = figures[name].map((used, index) => total(used) / total(figures[base][index])).sort((left, right) => left - right)
    return `${median(ratios).toFixed(3)} (${at(ratios, 0.25).toFixed(2)} to ${at(ratios, 0.75).toFixed(2)})`
  }
  const row = (name: keyof typeof sides): string[] =>
    [total, ({ server }: Used) => server, ({ postgres }: Used) => postgres].map((of) => median(figures[name].map(of)).toFixed(0))
  console.log(
    `CPU of server and PostgreSQL, ${rounds} slices of ${sliceWrites} writes each.\n\n${
      markdownTable(['write', 'µs', 'server', 'PostgreSQL', 'a table that is not listed', 'a listed table without a watch'], [
        ['to a table that is not listed', ...row('unlisted'), '', ''],
        ['listed, without a watch', ...row('unheard'), ratio('unheard', 'unlisted'), ''],
        ['with one watch', ...row('heard'), ratio('heard', 'unlisted'), ratio('heard', 'unheard')]
      ])
    }\n`
  )
}

async function measureStalled (servers: readonly Subject[]): Promise<void> {
  const count = 100
  const receivers = Array.from({ length: count }, () => ({ heard: (_text: string) => {} }))
  const all = await inTurns(
    count,
    (index) => open(servers[index % 2]!, tenants[Math.floor(index / 2) % tenantCount] ?? '', true, (text) => receivers[index]?.heard(text))
  )
  const figures: { without: number[], with: number[] } = { without: [], with: [] }
  for (let round = -1; round < rounds; round++) {
    for (const side of round % 2 === 0 ? ['without', 'with'] as const : ['with', 'without'] as const) {
      const stalled = side === 'with' ? [await open(servers[0]!, 't0', true)] : []
      for (const socket of stalled) socket.pause()
      const { all: delays } = await delaysOf(receivers, 200, 3000, 'x'.repeat(20_000))
      if (round >= 0) figures[side].push(at(delays, 0.99))
      for (const socket of stalled) socket.terminate()
    }
  }
  const sorted = (side: keyof typeof figures) => [...figures[side]].sort((left, right) => left - right)
  const row = (
    side: keyof typeof figures
  ) => [`${median(figures[side]).toFixed(0)}`, `${at(sorted(side), 0.25).toFixed(0)} to ${at(sorted(side), 0.75).toFixed(0)}`]
  console.log(
    `p99 of the others, ${count} sockets, 200 writes of 20 KB a second, ${rounds} slices of each.\n\n${
      markdownTable(['readers', 'p99 ms, median', 'quartiles'], [['all read', ...row('without')], ['one is stalled', ...row('with')]])
    }\n`
  )
  await close(all)
}
