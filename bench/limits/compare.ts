/** Alternates rounds of two servers, or of two kinds of requests: noise of the machine affects both. */
import type { BenchRequest } from '../cases.js'
import { median } from '../statistics.js'
import type { Load, Subject } from '../subject.js'

export interface Side {
  readonly server: Subject
  readonly requests: readonly BenchRequest[]
}

export interface CompareOptions {
  readonly load: Load
  readonly rounds: number
  readonly seconds: number
  readonly connections: number
}

/** Medians over the rounds. Ratios compare the other side with the base. */
export interface Comparison {
  /** Requests a second. */
  readonly base: number
  readonly other: number
  readonly ratio: Spread
  /** Microseconds of the server's CPU for a request. */
  readonly cpu: Spread
}

export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

interface Round {
  readonly requestsPerSecond: number
  /** The CPU time of the server's process, in microseconds for a request. */
  readonly cpu: number
}

const warmUpSeconds = 2

export async function compare (base: Side, other: Side, options: CompareOptions): Promise<Comparison> {
  const [first, second]: [Round[], Round[]] = [[], []]
  for (const side of [base, other]) await round(side, options, warmUpSeconds)
  for (let index = 0; index < options.rounds; index++) {
    // The sides take turns at going first, so that neither always gets the warmer machine.
    for (const side of index % 2 === 0 ? [base, other] : [other, base]) {
      ;(side === base ? first : second).push(await round(side, options, options.seconds))
    }
  }
  const spread = (figure: keyof Round): Spread => {
    const ratios = second.map((round, index) => round[figure] / (first[index]?.[figure] ?? Number.NaN))
    return { median: median(ratios), low: Math.min(...ratios), high: Math.max(...ratios) }
  }
  const rate = (rounds: readonly Round[]) => median(rounds.map(({ requestsPerSecond }) => requestsPerSecond))
  return { base: rate(first), other: rate(second), ratio: spread('requestsPerSecond'), cpu: spread('cpu') }
}

async function round ({ server, requests }: Side, { load, connections }: CompareOptions, seconds: number): Promise<Round> {
  const before = await server.usage()
  const result = await load.run({ url: server.url, requests, connections, seconds })
  const after = await server.usage()
  if (result.errors + result.refused > 0) throw new Error(`${requests[0]?.path}: ${result.errors} errors, ${result.refused} refused`)
  return { requestsPerSecond: result.requestsPerSecond, cpu: (after.cpu - before.cpu) / result.count }
}
