/** Prometheus' text format 0.0.4, parsed strictly, with the checks of `promtool check metrics`; and the samples in it. */
import parse from 'parse-prometheus-text-format'
import type { Test } from 'tap'

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const metricName = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const comment = new RegExp(`^# (HELP|TYPE) (${metricName}) (.+)$`)
const sample = new RegExp(`^(${metricName})(?:\\{(.*)\\})? (\\S+)$`)
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y
const foreignUnits =
  /(^|_)(milliseconds?|microseconds?|nanoseconds?|minutes?|hours?|days?|kilobytes?|megabytes?|gigabytes?|kib|mib|kb|mb|gb|ms|us|ns|percent)(_|$)/

/** The samples of a text. Fails the test if the text breaks a rule. */
export function samplesOf (t: Test, text: string): Sample[] {
  const types = new Map<string, string>()
  const helps = new Set<string>()
  const series = new Set<string>()
  const begun: string[] = []
  const samples: Sample[] = []
  const faults: string[] = []
  if (!text.endsWith('\n')) faults.push('the last line does not end')
  for (const line of text.split('\n')) {
    if (line === '') continue
    const [, keyword, family = '', rest = ''] = comment.exec(line) ?? []
    if (keyword === 'HELP') {
      if (helps.has(family)) faults.push(`${family}: HELP twice`)
      helps.add(family)
    } else if (keyword === 'TYPE') {
      if (types.has(family)) faults.push(`${family}: TYPE twice`)
      types.set(family, rest)
    } else {
      const found = sampleOf(line)
      if (found === null) {
        faults.push(`no sample: ${line}`)
        continue
      }
      const of = familyOf(found.name, types)
      if (of === undefined || !helps.has(of)) faults.push(`${found.name}: a sample without HELP and TYPE before it`)
      else if (begun.at(-1) !== of) {
        if (begun.includes(of)) faults.push(`${of}: its samples are not together`)
        begun.push(of)
      }
      const key = JSON.stringify([found.name, Object.entries(found.labels).sort()])
      if (series.has(key)) faults.push(`the same series twice: ${line}`)
      series.add(key)
      samples.push(found)
    }
  }
  for (const [family, type] of types) faults.push(...lint(family, type))
  t.strictSame(faults, [], 'the rules of the format')
  t.strictSame(parse(text)?.map(({ name, type }) => [name, type.toLowerCase()]), [...types], 'another parser finds the same metrics')
  return samples
}

function sampleOf (line: string): Sample | null {
  const [, name, inner = '', value = ''] = sample.exec(line) ?? []
  if (name === undefined || !/^([+-]Inf|NaN|-?\d+(\.\d+)?(e[+-]\d+)?)$/.test(value)) return null
  const labels: Record<string, string> = {}
  label.lastIndex = 0
  while (label.lastIndex < inner.length) {
    const [, key, text = ''] = label.exec(inner) ?? []
    if (key === undefined || Object.hasOwn(labels, key)) return null
    labels[key] = text.replace(/\\(["\\n])/g, (_, escaped: string) => escaped === 'n' ? '\n' : escaped)
  }
  return { name, labels, value: Number(value.replace('Inf', 'Infinity')) }
}

function familyOf (name: string, types: ReadonlyMap<string, string>): string | undefined {
  if (types.has(name)) return name
  const family = name.replace(/_(bucket|sum|count)$/, '')
  return types.get(family) === 'histogram' ? family : undefined
}

/** promtool's checks of names. */
function lint (name: string, type: string): string[] {
  const faults: string[] = []
  if ((type === 'counter') !== name.endsWith('_total')) faults.push('counters, and they alone, end in _total')
  if (type !== 'histogram' && /_(bucket|count|sum)$/.test(name)) faults.push('the end of a histogram')
  if (/(^|_)(counter|gauge|histogram|summary)(_|$)/.test(name)) faults.push('its type is in its name')
  if (/[:A-Z]/.test(name)) faults.push('colons and capitals')
  if (foreignUnits.test(name)) faults.push('not in base units')
  return faults.map((fault) => `${name}: ${fault}`)
}

/** The value of the single sample with this name and (at least) these labels; undefined if there is none. */
export function valueOf (samples: readonly Sample[], name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
  return samples.find((found) => found.name === name && Object.entries(labels).every(([key, value]) => found.labels[key] === value))?.value
}

/** `GET /things/:id 200 3`: the counts of requests. */
export function requestsIn (samples: readonly Sample[]): string[] {
  return samples.filter(({ name }) => name === 'http_request_duration_seconds_count').map(({ labels, value }) =>
    `${labels['method']} ${labels['route']} ${labels['status_code']} ${value}`
  )
}
