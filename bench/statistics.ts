/** The figures of one measured round, their medians, and the table. */

/** One case on one server in one round. */
export interface Measurement {
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** CPU of the server process, in microseconds for a request. */
  readonly cpu: number
  /** CPU of PostgreSQL, in microseconds for a request; NaN if the system does not report it. */
  readonly databaseCpu: number
}

export function median (values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right)
  const middle = sorted.length >> 1
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]]
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2
}

export function medianOf (rounds: readonly Measurement[], figure: keyof Measurement): number {
  return median(rounds.map(round => round[figure]))
}

/** The median of the rounds' ratios, with the lowest and the highest. Noise affects both servers of a round, and so mostly cancels out. */
export function ratio (
  rounds: readonly Measurement[],
  base: readonly Measurement[],
  figure: keyof Measurement
): { median: number, low: number, high: number } {
  const ratios = rounds.map((round, index) => round[figure] / (base[index]?.[figure] ?? Number.NaN))
  return { median: median(ratios), low: Math.min(...ratios), high: Math.max(...ratios) }
}

/** For pairs of slices: the medians, and the median and quartiles of the pairs' ratios. */
export function compareSlices (base: readonly number[], other: readonly number[]): { base: string, other: string, ratio: string } {
  const ratios = other.map((rate, index) => rate / (base[index] ?? Number.NaN)).sort((left, right) => left - right)
  const at = (share: number): string => (ratios[Math.floor((ratios.length - 1) * share)] ?? Number.NaN).toFixed(2)
  return {
    base: median(base).toFixed(0),
    other: median(other).toFixed(0),
    ratio: `${median(ratios).toFixed(3)} (${at(0.25)} to ${at(0.75)})`
  }
}

export function markdownTable (head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, index) => index === 0 ? '---' : '---:')), ...rows.map(line)].join('\n')
}
