/**
 * Measures what CORS, security headers and request ids cost a request: the CPU time of a server with the plugins `headers` and `cors`
 * compared, in alternating slices of one process, with a server without them. `node --import tsx bench/headers.ts`. Options:
 *   --pairs N    pairs of slices (default 300)
 *   --size N     requests in a slice, pipelined on one connection (default 300)
 */
import { connect } from 'node:net'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import type { HeadersSettings } from './headers/server.js'
import { markdownTable, median } from './statistics.js'
import { startSubject } from './subject.js'

const { values: given } = parseArgs({ options: { pairs: { type: 'string', default: '300' }, size: { type: 'string', default: '300' } } })
const pairs = Number(given.pairs)
const size = Number(given.size)
const warmUp = 40 // pairs
const allowed = 3 // us a request
const origins = ['https://app.example.com', 'https://*.example.com']
const requests = {
  'without an origin': '',
  'of a listed origin': 'origin: https://app.example.com\r\n',
  'of a pattern': 'origin: https://pr-7.example.com\r\n',
  'of an unknown origin': 'origin: https://evil.example\r\n'
}

/** Sends a slice. Resolves with the CPU time of a request, in microseconds. */
type Slice = (head: string) => Promise<number>

const server = await startSubject<HeadersSettings>('headers', { origins, connectionString: '', jwtSecret: '' })
const { address }: { address: string } = JSON.parse(await (await fetch(`${server.url}/on`)).text())
const off = caller(server.url)
const on = caller(address)
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
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, microseconds of the server's CPU a request\n`)
console.log(markdownTable(['Request', 'Off', 'On', 'Cost', `At most ${allowed}`], rows))
process.exit()

function caller (url: string): Slice {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let left = 0
  let end = () => {}
  socket.on('data', (part) => {
    for (let found = part.indexOf('{"hello"'); found !== -1; found = part.indexOf('{"hello"', found + 1)) if (--left === 0) end()
  })
  return async (head) => {
    const before = await server.usage()
    left = size
    const answered = new Promise<void>((resolve) => {
      end = resolve
    })
    socket.write(`GET /hello HTTP/1.1\r\nhost: a\r\n${head}\r\n`.repeat(size))
    await answered
    return ((await server.usage()).cpu - before.cpu) / size
  }
}
