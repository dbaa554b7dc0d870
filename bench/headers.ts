/**
 * What CORS, security headers and request ids cost a request: an app with the plugins `headers` and `cors` against one
 * without, in turns in one process that also is the caller. `node --import tsx bench/headers.ts`. Options:
 *   --pairs N    pairs of slices (default 300)
 *   --size N     requests of a slice, sent at once on one connection (default 300)
 */
import type { FastifyInstance } from 'fastify'
import Fastify from 'fastify'
import { connect } from 'node:net'
import { cpus } from 'node:os'
import { setImmediate as turn } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import conventions from '../plugins/conventions/index.js'
import cors from '../plugins/cors/index.js'
import headers from '../plugins/headers/index.js'
import { markdownTable, median } from './statistics.js'

const { values: given } = parseArgs({ options: { pairs: { type: 'string', default: '300' }, size: { type: 'string', default: '300' } } })
const pairs = Number(given.pairs)
const size = Number(given.size)
const warmUp = 40 // pairs
const allowed = 3 // us a request
const origins = ['https://app.example.com', 'https://*.example.com']
const requests = { 'without an origin': '', 'of a listed origin': 'origin: https://app.example.com\r\n', 'of a pattern': 'origin: https://pr-7.example.com\r\n', 'of an unknown origin': 'origin: https://evil.example\r\n' }

/** Sends a slice and resolves with the CPU time of a request, in microseconds. */
type Slice = (head: string) => Promise<number>

const off = await start(async () => {})
const on = await start(async (app) => {
  await app.register(headers)
  await app.register(cors, { origins })
})
const rows: string[][] = []
for (const [name, head] of Object.entries(requests)) {
  const times = { off: Array<number>(), on: Array<number>() }
  for (let pair = 0; pair < pairs + warmUp; pair++) {
    const first = pair % 2 === 0 ? await off(head) : await on(head)
    const second = pair % 2 === 0 ? await on(head) : await off(head)
    if (pair < warmUp) continue
    times.off.push(pair % 2 === 0 ? first : second)
    times.on.push(pair % 2 === 0 ? second : first)
  }
  const cost = median(times.on.map((time, index) => time - (times.off[index] ?? time)))
  rows.push([name, median(times.off).toFixed(2), median(times.on).toFixed(2), cost.toFixed(2), cost <= allowed ? 'yes' : 'no'])
}
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, microseconds of CPU a request, the caller's included\n`)
console.log(markdownTable(['Request', 'Off', 'On', 'Cost', `At most ${allowed}`], rows))
process.exit()

async function start (prepare: (app: FastifyInstance) => Promise<void>): Promise<Slice> {
  const app = Fastify()
  await prepare(app)
  await app.register(conventions)
  app.get('/hello', async () => ({ hello: 'you' }))
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  const socket = connect(Number(port), '127.0.0.1')
  let left = 0
  let end = () => {}
  socket.on('data', (part) => {
    for (let found = part.indexOf('{"hello"'); found !== -1; found = part.indexOf('{"hello"', found + 1)) if (--left === 0) end()
  })
  return async (head) => {
    await turn()
    left = size
    const answered = new Promise<void>((resolve) => { end = resolve })
    const begun = process.cpuUsage()
    socket.write(`GET /hello HTTP/1.1\r\nhost: a\r\n${head}\r\n`.repeat(size))
    await answered
    const { user, system } = process.cpuUsage(begun)
    return (user + system) / size
  }
}
