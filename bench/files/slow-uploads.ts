/** The process of the tenant that uploads slowly: each connection sends a few bytes a second. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface SlowUploads {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly count: number
  readonly bytesPerSecond: number
  /** Bytes a second of one more upload. */
  readonly tooSlow: number
}

/** Starts uploads, or reports their outcomes and ends them. */
export type SlowOrder = { readonly begin: SlowUploads } | { readonly end: true }

export interface SlowReport {
  /** Running uploads, without the one that is too slow. */
  readonly open: number
  /** Seconds after which the server ended the upload that is too slow. */
  readonly endedAfter: number
  /** The response to it. */
  readonly status: string
}

const boundary = 'the-boundary-of-the-benchmark'
const size = 1_000_000_000 // announced bytes
const longest = 70_000 // ms within which the server must end the upload that is too slow

interface Sender {
  readonly socket: Socket
  readonly begun: number
  text: string
  /** null while it runs. */
  endedAfter: number | null
}

let senders: Sender[] = []
let slowest: Sender | null = null
let timers: NodeJS.Timeout[] = []

process.on('message', async (order: SlowOrder) => {
  if ('begin' in order) await begin(order.begin)
  process.send?.('begin' in order ? { open: senders.length, endedAfter: 0, status: '' } : await end())
})
process.once('disconnect', () => process.exit(0))

async function begin (order: SlowUploads): Promise<void> {
  senders = Array.from({ length: order.count - 1 }, (_, index) => send(order, order.bytesPerSecond, 1000 * index / order.count))
  slowest = send(order, order.tooSlow, 0)
}

async function end (): Promise<SlowReport> {
  const { socket } = slowest ?? {}
  if (socket?.destroyed === false) await Promise.race([once(socket, 'close'), sleep(longest)])
  const report = {
    open: senders.filter(({ endedAfter }) => endedAfter === null).length,
    endedAfter: slowest?.endedAfter ?? Number.NaN,
    status: slowest?.text.split('\r\n')[0] ?? ''
  }
  for (const timer of timers) clearInterval(timer)
  for (const { socket } of [...senders, ...slowest === null ? [] : [slowest]]) socket.destroy()
  timers = []
  return report
}

function send ({ url, headers }: SlowUploads, bytesPerSecond: number, delay: number): Sender {
  const { hostname, port, host } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true }).on('error', () => {})
  const sender: Sender = { socket, begun: performance.now(), text: '', endedAfter: null }
  socket.setEncoding('latin1').on('data', (text) => {
    sender.text += text
  })
  socket.once('close', () => {
    sender.endedAfter = (performance.now() - sender.begun) / 1000
  })
  const lines = Object.entries({
    host,
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': String(size),
    ...headers
  })
  socket.write(`POST /files/upload HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
  socket.write(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="slow.bin"\r\n\r\n`)
  const bytes = Buffer.alloc(bytesPerSecond)
  setTimeout(() => {
    timers.push(setInterval(() => {
      if (!socket.destroyed) socket.write(bytes)
    }, 1000))
  }, delay)
  return sender
}
