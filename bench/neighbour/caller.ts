/** The process of the other tenant: requests at a fixed rate. A time counts from when its request was due. */
import type { BenchRequest } from '../cases.js'
import { Agent, request } from 'undici'

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
  readonly failures: number
  /** The longest answer of `/health` in milliseconds, asked every 20 ms. */
  readonly health: number
}

process.on('message', async (order: CallerOrder) => { process.send?.(await call(order)) })
process.once('disconnect', () => process.exit(0))

async function call ({ url, requests, rate, seconds }: CallerOrder): Promise<CallerReport> {
  const dispatcher = new Agent({ connections: 16 })
  const times: number[] = []
  let [failures, health] = [0, 0]
  const ask = async (path: string, headers: Record<string, string>): Promise<boolean> => {
    const { statusCode, body } = await request(url + path, { dispatcher, headers })
    await body.dump()
    return statusCode === 200
  }
  const begin = performance.now()
  const end = begin + seconds * 1000
  const waiting: Promise<void>[] = []
  const probe = async () => {
    while (performance.now() < end) {
      const asked = performance.now()
      await ask('/health', {})
      health = Math.max(health, performance.now() - asked)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const probing = probe()
  for (let index = 0; performance.now() < end; index++) {
    const due = begin + index * 1000 / rate
    const { path, headers } = requests[index % requests.length]!
    while (performance.now() < due) await new Promise((resolve) => setTimeout(resolve, 1))
    waiting.push(ask(path, headers).then((isSuccess) => {
      if (isSuccess) times.push(performance.now() - due)
      else failures++
    }, () => { failures++ }))
  }
  await Promise.all([...waiting, probing])
  const took = (performance.now() - begin) / 1000
  await dispatcher.close()
  return { rate: times.length / took, times, failures, health }
}
