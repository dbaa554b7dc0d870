/** The process that reads many streams at once and measures the gaps between their tokens. */
import { once } from 'node:events'
import { Agent, request } from 'node:http'

export interface StreamRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ReadersOrder {
  readonly requests: readonly StreamRequest[]
  /** Each token of a stream contains it once. */
  readonly mark: string
  /** Milliseconds over which the streams start. */
  readonly spreadMs: number
}

/** Milliseconds; over all gaps of all streams. */
export interface ReadersReport {
  readonly streams: number
  readonly tokens: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

process.on('message', async (order: ReadersOrder) => {
  process.send?.(await readAll(order))
})
process.once('disconnect', () => process.exit(0))

async function readAll ({ requests, mark, spreadMs }: ReadersOrder): Promise<ReadersReport> {
  const agent = new Agent({ keepAlive: true, maxSockets: requests.length })
  const gaps: number[] = []
  let tokens = 0
  await Promise.all(requests.map(async ({ url, headers, body }, index) => {
    await new Promise((resolve) => setTimeout(resolve, spreadMs * index / requests.length))
    const sent = request(url, { method: 'POST', agent, headers: { 'content-type': 'application/json', ...headers } })
    sent.end(body)
    const [response] = await once(sent, 'response')
    if (response.statusCode !== 200) throw new Error(`${url}: ${response.statusCode}`)
    let last = 0
    response.setEncoding('utf8')
    for await (const part of response) {
      const now = performance.now()
      const found = String(part).split(mark).length - 1
      if (found === 0) continue
      if (last > 0) gaps.push(now - last)
      last = now
      tokens += found
    }
  }))
  agent.destroy()
  gaps.sort((left, right) => left - right)
  const at = (share: number): number => gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * share))] ?? Number.NaN
  return { streams: requests.length, tokens, p50: at(0.5), p99: at(0.99), max: at(1) }
}
