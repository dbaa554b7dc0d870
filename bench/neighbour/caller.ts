/**
 * The process of the other tenant: requests at a fixed rate, on connections that stay open like those of a proxy. A response time counts
 * from the time at which the request was due. `/health` has a new connection in each slice, which waits behind those of the attack: Node
 * accepts one connection in each round of the event loop. If the process runs as the superuser, it has a high priority: its own waits for
 * a processor count as waits for the server.
 */
import { setPriority } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Agent, request } from 'undici'
import type { Statuses } from '../../test/helpers/worst-neighbour.js'
import type { BenchRequest } from '../cases.js'

export interface CallerOrder {
  readonly url: string
  readonly requests: readonly BenchRequest[]
  /** Requests a second. */
  readonly rate: number
  readonly seconds: number
}

export interface CallerReport {
  /** Successes a second. */
  readonly rate: number
  /** Milliseconds of each success. */
  readonly times: readonly number[]
  /** Counts of all other responses, by status or error code. */
  readonly failures: Statuses
  /** The slowest response of `/health` in milliseconds, requested every 20 ms. */
  readonly health: number
  /** The longest pause of the caller's own event loop in milliseconds: the machine gave it no CPU. */
  readonly stall: number
}

const resolution = 10 // ms
if (process.geteuid?.() === 0) setPriority(-10)
const agent = new Agent({ connections: 16, keepAliveTimeout: 60_000 })

process.on('message', async (order: CallerOrder) => {
  process.send?.(await call(order))
})
process.once('disconnect', () => process.exit(0))

async function call ({ url, requests, rate, seconds }: CallerOrder): Promise<CallerReport> {
  // Requests that wait for the database must not delay it.
  const prober = new Agent({ connections: 1 })
  const times: number[] = []
  const failures: Statuses = {}
  let health = 0
  const ask = async (dispatcher: Agent, path: string, headers: Record<string, string>): Promise<boolean> => {
    let reply: string
    try {
      const { statusCode, body } = await request(url + path, { dispatcher, headers })
      await body.dump()
      reply = String(statusCode)
    } catch (error) {
      reply = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    }
    if (reply === '200') return true
    failures[reply] = (failures[reply] ?? 0) + 1
    return false
  }
  const delays = monitorEventLoopDelay({ resolution })
  delays.enable()
  const begin = performance.now()
  const end = begin + seconds * 1000
  const waiting: Promise<void>[] = []
  const probe = async () => {
    while (performance.now() < end) {
      const asked = performance.now()
      await ask(prober, '/health', {})
      health = Math.max(health, performance.now() - asked)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const probing = probe()
  for (let index = 0; performance.now() < end; index++) {
    const due = begin + index * 1000 / rate
    const { path, headers } = requests[index % requests.length]!
    while (performance.now() < due) await new Promise((resolve) => setTimeout(resolve, 1))
    waiting.push(
      ask(agent, path, headers).then((isSuccess) => {
        if (isSuccess) times.push(performance.now() - due)
      })
    )
  }
  await Promise.all([...waiting, probing])
  const took = (performance.now() - begin) / 1000
  delays.disable()
  await prober.close()
  return { rate: times.length / took, times, failures, health, stall: Math.max(0, delays.max / 1e6 - resolution) }
}
