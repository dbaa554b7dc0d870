/**
 * Measures what a route on one Firestore document costs: the CPU time of the server compared, in alternating slices, with a Fastify server
 * that calls the client library by hand. The emulator and PostgreSQL run in their own processes. `npm run bench:firestore`. Options:
 *   --pairs N    pairs of slices (default 40)
 *   --size N     requests in a slice, 16 at a time (default 250)
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import { startDatabase } from './database.js'
import type { FirestoreSettings } from './firestore/settings.js'
import { markdownTable, median } from './statistics.js'
import { startSubject, type Subject } from './subject.js'

const { values: given } = parseArgs({ options: { pairs: { type: 'string', default: '40' }, size: { type: 'string', default: '250' } } })
const pairs = Number(given.pairs)
const size = Number(given.size)
const warmUp = 8 // pairs
const connections = 16
const allowed = 1.25

const note = { title: 'A note', rank: 7, open: true, tags: ['a', 'b', 'c'], owner: { name: 'Ada', since: 2020 }, text: 'x'.repeat(500) }
const headers = { authorization: `Bearer ${signToken({ sub: 'u', tenant_id: 'acme' }, { expiresIn: 86_400 })}` }

const emulator = fork(fileURLToPath(new URL('firestore/emulator.ts', import.meta.url)), [], {
  execArgv: ['--import', import.meta.resolve('tsx')]
})
const [emulatorHost]: string[] = await once(emulator, 'message')
const database = await startDatabase()
const subjects: Subject[] = []
const pools: Pool[] = []
try {
  const settings: FirestoreSettings = {
    connectionString: database.connectionString,
    jwtSecret: testSecret,
    emulatorHost: emulatorHost ?? '',
    projectId: `bench-${process.pid}`
  }
  const hand = await side('firestore/by-hand', settings)
  const own = await side('firestore', settings)
  const written = await own.pool.request({
    method: 'PUT',
    path: '/notes/n1',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(note)
  })
  if (written.statusCode !== 200) throw new Error(await written.body.text())
  const [byHand, ofRoute] = [await hand.read(), await own.read()]
  if (JSON.stringify(Object.entries(byHand).sort()) !== JSON.stringify(Object.entries(ofRoute).sort())) {
    throw new Error('the two servers respond differently')
  }
  await compare(hand, own)
} finally {
  for (const pool of pools) await pool.close()
  for (const subject of subjects) await subject.stop()
  await database.stop()
  emulator.disconnect()
}

interface Side {
  readonly pool: Pool
  /** The document, as in the response. */
  read(): Promise<Record<string, unknown>>
  /** Runs the next slice; returns the server's CPU time in microseconds for a request. */
  slice(): Promise<number>
}

async function side (name: string, settings: FirestoreSettings): Promise<Side> {
  const subject = await startSubject<FirestoreSettings>(name, settings)
  subjects.push(subject)
  const pool = new Pool(subject.url, { connections })
  pools.push(pool)
  const ask = async (): Promise<string> => {
    const { statusCode, body } = await pool.request({ method: 'GET', path: '/notes/n1', headers })
    const text = await body.text()
    if (statusCode !== 200) throw new Error(`${name}: ${statusCode} ${text}`)
    return text
  }
  return {
    pool,
    read: async () => JSON.parse(await ask()),
    async slice () {
      const before = await subject.usage()
      let left = size
      await Promise.all(Array.from({ length: connections }, async () => {
        while (left-- > 0) await ask()
      }))
      return ((await subject.usage()).cpu - before.cpu) / size
    }
  }
}

async function compare (hand: Side, own: Side): Promise<void> {
  const times = { hand: Array<number>(), own: Array<number>() }
  for (let pair = -warmUp; pair < pairs; pair++) {
    const first = pair % 2 === 0 ? await hand.slice() : await own.slice()
    const second = pair % 2 === 0 ? await own.slice() : await hand.slice()
    if (pair < 0) continue
    times.hand.push(pair % 2 === 0 ? first : second)
    times.own.push(pair % 2 === 0 ? second : first)
  }
  const ratio = median(times.own.map((time, index) => time / (times.hand[index] ?? time)))
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, microseconds of the server's CPU a request\n`)
  console.log(markdownTable(['Request', 'By hand', 'Route', 'Ratio', `At most ${allowed}`], [
    ['`get` of a document', median(times.hand).toFixed(0), median(times.own).toFixed(0), ratio.toFixed(3), ratio <= allowed ? 'yes' : 'no']
  ]))
}
