/**
 * The process that generates the load of two sides in short alternating slices, within one run and on persistent connections. Noise that
 * lasts longer than some tens of milliseconds affects both sides alike. The ratio of each pair of slices therefore shows differences of one
 * percent, which rounds of seconds do not.
 */
import { connect, type Socket } from 'node:net'
import type { BenchRequest } from './cases.js'

export interface SlicedSide {
  readonly url: string
  /** GET requests, in order; each slice continues after the one before. */
  readonly requests: readonly BenchRequest[]
}

export interface SliceOrder {
  readonly base: SlicedSide
  readonly other: SlicedSide
  readonly connections: number
  /** Pairs that count. A tenth as many run before them as a warm-up. */
  readonly pairs: number
  /** Requests in a slice. */
  readonly size: number
}

/** Requests a second of each slice, in order. */
export interface SliceReport {
  readonly base: readonly number[]
  readonly other: readonly number[]
}

interface Side {
  /** Requests a second of the next slice. */
  run(size: number): Promise<number>
  close(): void
}

process.on('message', async (order: SliceOrder) => {
  process.send?.(await slices(order))
})
process.once('disconnect', () => process.exit(0))

async function slices ({ base, other, connections, pairs, size }: SliceOrder): Promise<SliceReport> {
  const [first, second] = [await open(base, connections), await open(other, connections)]
  const report: { base: number[], other: number[] } = { base: [], other: [] }
  for (let pair = -Math.ceil(pairs / 10); pair < pairs; pair++) {
    // The sides take turns at going first, so that neither always gets the warmer machine.
    for (const side of pair % 2 === 0 ? [first, second] : [second, first]) {
      const rate = await side.run(size)
      if (pair >= 0) (side === first ? report.base : report.other).push(rate)
    }
  }
  first.close()
  second.close()
  return report
}

async function open ({ url, requests }: SlicedSide, connections: number): Promise<Side> {
  const { hostname, port, host } = new URL(url)
  const texts = requests.map(({ path, headers }) =>
    Buffer.from(
      `GET ${path} HTTP/1.1\r\nhost: ${host}\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
    )
  )
  const sockets = await Promise.all(Array.from({ length: connections }, () =>
    new Promise<Socket>((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true }, () => resolve(socket)).once('error', reject)
    })))
  let next = 0
  return {
    async run (size) {
      let left = size
      const start = performance.now()
      await Promise.all(sockets.map(async (socket) => {
        while (left-- > 0) await exchange(socket, texts[next++ % texts.length] ?? Buffer.alloc(0))
      }))
      return size / (performance.now() - start) * 1000
    },
    close () {
      for (const socket of sockets) socket.destroy()
    }
  }
}

/** One request and its response, which must be a success with a content-length. */
function exchange (socket: Socket, request: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    let start: Buffer = Buffer.alloc(0)
    let left: number | null = null
    const end = (error?: Error) => {
      socket.off('data', read).off('close', closed)
      if (error === undefined) resolve()
      else reject(error)
    }
    const closed = () => end(new Error('a connection was closed'))
    const read = (chunk: Buffer) => {
      if (left === null) {
        start = start.length === 0 ? chunk : Buffer.concat([start, chunk])
        const head = start.indexOf('\r\n\r\n')
        if (head === -1) return
        const text = start.toString('latin1', 0, head)
        const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
        if (!text.startsWith('HTTP/1.1 200 ') || length === undefined) return end(new Error(text.split('\r\n')[0]))
        left = head + 4 + Number(length) - start.length
      } else left -= chunk.length
      if (left <= 0) end()
    }
    socket.on('data', read).once('close', closed)
    socket.write(request)
  })
}
