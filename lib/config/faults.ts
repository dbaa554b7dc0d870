/** The faults of a document: all of them are collected and reported in one error. */

/** One thing that is wrong with a document. */
export interface Fault {
  /** JSON Pointer (RFC 6901) to the member. */
  readonly pointer: string
  /** What is wrong and what was expected. */
  readonly message: string
  /** The nearest name that would be right: "did you mean". */
  readonly suggestion?: string
}

/** A document cannot be served. `message` lists every fault, one a line. */
export class ConfigError extends Error {
  readonly code = 'TENANTRY_CONFIG_INVALID'
  readonly faults: readonly Fault[]

  constructor (faults: readonly Fault[]) {
    super(`the configuration has ${faults.length} fault${faults.length === 1 ? '' : 's'}\n${faults.map(formatFault).join('\n')}`)
    this.name = 'ConfigError'
    this.faults = faults
  }
}

/** One line for one fault: `/routes/0/methd: unknown member, did you mean "method"?` */
export function formatFault ({ pointer, message, suggestion }: Fault): string {
  return `${pointer || '/'}: ${message}${suggestion === undefined ? '' : `, did you mean "${suggestion}"?`}`
}

/** Collects faults while a document is checked and compiled. */
export class FaultList {
  readonly faults: Fault[] = []

  add (pointer: string, message: string, suggestion?: string): void {
    this.faults.push(suggestion === undefined ? { pointer, message } : { pointer, message, suggestion })
  }

  /** Throws a ConfigError where there are any. */
  throwIfAny (): void {
    if (this.faults.length > 0) throw new ConfigError(this.faults)
  }
}

/** Appends members to a JSON Pointer, escaped as RFC 6901 says. */
export function pointerTo (base: string, ...members: (string | number)[]): string {
  return members.reduce<string>((pointer, member) => `${pointer}/${String(member).replaceAll('~', '~0').replaceAll('/', '~1')}`, base)
}

/** The candidate nearest to a word, for "did you mean": at most a third of its letters differ. */
export function nearest (word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

function editDistance (left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const substitution = row[j - 1]! + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[right.length]!
}
