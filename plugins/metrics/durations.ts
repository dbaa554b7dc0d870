/**
 * A histogram of prom-client with series that callers keep. The original looks up a series by its labels, as a text, at each observation,
 * which costs more than all other figures of a request.
 */
import { Histogram, type Registry } from 'prom-client'

export interface DurationsOptions<Label extends string> {
  readonly name: string
  readonly help: string
  readonly labels: readonly Label[]
  /** Upper bounds of the buckets, in seconds, ascending. */
  readonly bounds: readonly number[]
  readonly registry: Registry
  /** Runs before the series are serialized. */
  readonly collect?: (() => Promise<void>) | undefined
}

/** Counting works through series only: `observe` of prom-client counts nothing here. */
export class Durations<Label extends string> extends Histogram<Label> {
  readonly #options: DurationsOptions<Label>
  readonly #series = new Map<string, Series<Label>>()

  constructor (options: DurationsOptions<Label>) {
    const { name, help, labels, bounds, registry } = options
    super({ name, help, labelNames: labels, buckets: [...bounds], registers: [registry] })
    this.#options = options
  }

  /** The series of these values, in the order of the labels; created if necessary. */
  series (...values: string[]): Series<Label> {
    const { labels, bounds } = this.#options
    const key = JSON.stringify(values)
    let series = this.#series.get(key)
    if (series === undefined) this.#series.set(key, series = new Series(labels, values, bounds))
    return series
  }

  /** Removes the series. Later observations of its holders are lost. */
  drop (...values: string[]): void {
    this.#series.delete(JSON.stringify(values))
  }

  /** Resets all counts; the series stay. */
  override reset (): void {
    super.reset()
    // The constructor of prom-client calls it.
    if (#series in this) { for (const series of this.#series.values()) series.reset() }
  }

  /** Called by prom-client to serialize a histogram. */
  async getForPromString () {
    const { name, help, bounds, collect } = this.#options
    await collect?.()
    const values = Array.from(this.#series.values(), (series) => samplesOf(series, name, bounds)).flat()
    return { name, help, type: 'histogram', aggregator: 'sum', values }
  }
}

/** The observations of one set of labels. */
export class Series<Label extends string = string> {
  readonly labels: Readonly<Partial<Record<Label, string>>>
  readonly #bounds: readonly number[]
  /** For each bucket separately; the last one is for values above every bound. */
  readonly #counts: number[]
  #sum = 0

  constructor (labels: readonly Label[], values: readonly string[], bounds: readonly number[]) {
    const named: Partial<Record<Label, string>> = {}
    for (const [index, label] of labels.entries()) named[label] = values[index] ?? ''
    this.labels = named
    this.#bounds = bounds
    this.#counts = new Array(bounds.length + 1).fill(0)
  }

  get sum (): number {
    return this.#sum
  }

  get counts (): readonly number[] {
    return this.#counts
  }

  observe (seconds: number): void {
    const bounds = this.#bounds
    let bucket = 0
    // A missing bound is not less either.
    while (seconds > (bounds[bucket] ?? Infinity)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += seconds
  }

  reset (): void {
    this.#counts.fill(0)
    this.#sum = 0
  }
}

interface Sample {
  readonly metricName: string
  /** Of this sample alone; prom-client writes to it. */
  readonly labels: { le?: number | string }
  readonly sharedLabels: object
  readonly value: number
}

/** The lines of a series; the count of a bucket includes all lower ones. */
function samplesOf ({ labels: sharedLabels, counts, sum }: Series, name: string, bounds: readonly number[]): Sample[] {
  let count = 0
  const samples: Sample[] = counts.map((inBucket, index) => {
    count += inBucket
    return { metricName: `${name}_bucket`, labels: { le: bounds[index] ?? '+Inf' }, sharedLabels, value: count }
  })
  samples.push({ metricName: `${name}_sum`, labels: {}, sharedLabels, value: sum }, {
    metricName: `${name}_count`,
    labels: {},
    sharedLabels,
    value: count
  })
  return samples
}
