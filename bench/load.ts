/** The process that generates the load: autocannon, in its own process so that it takes no CPU from the servers. */
import type { Result } from 'autocannon'
import autocannon from 'autocannon'
import type { BenchRequest } from './cases.js'

export interface LoadOrder {
  readonly url: string
  readonly requests: readonly BenchRequest[]
  readonly connections: number
  readonly seconds: number
}

export interface LoadReport {
  /** Answered requests. */
  readonly count: number
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Failures; a measured round must have none. */
  readonly errors: number
  readonly refused: number
}

process.on('message', async (order: LoadOrder) => {
  process.send?.(await load(order))
})
process.once('disconnect', () => process.exit(0))

async function load ({ url, requests, connections, seconds }: LoadOrder): Promise<LoadReport> {
  const times: number[] = []
  let [first, last] = [0, 0]
  let client = 0
  const prepared = requests.map(request => ({ ...request, headers: { ...request.headers } }))
  const result = await new Promise<Result>((resolve, reject) => {
    const run = autocannon({
      url,
      connections,
      duration: seconds,
      // Each connection starts at a different request, so that they do not all read the same row at once.
      setupClient (connection) {
        const start = Math.floor(prepared.length * client++ / connections)
        connection.setRequests([...prepared.slice(start), ...prepared.slice(0, start)])
      }
    }, (error: Error | null, result) => error === null || error === undefined ? resolve(result) : reject(error))
    run.on('response', (_client, _status, _bytes, milliseconds) => {
      last = performance.now()
      first ||= last
      times.push(milliseconds)
    })
  })
  times.sort((left, right) => left - right)
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN
  return {
    count: times.length,
    requestsPerSecond: (times.length - 1) / ((last - first) / 1000),
    p50: at(0.5),
    p99: at(0.99),
    errors: result.errors + result.timeouts,
    refused: result.non2xx
  }
}
