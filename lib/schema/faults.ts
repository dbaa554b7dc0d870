/** The faults of a document, collected and reported in one error. */

/** A fault of a document. */
export interface Fault {
  /** JSON Pointer (RFC 6901) to the member; empty for the document as a whole. */
  readonly pointer: string
  /** Without a pointer: file, line and column of an unreadable text, or the name of a setting. */
  readonly location?: string
  /** The fault and the expected value. */
  readonly message: string
  /** The nearest valid name: "did you mean". */
  readonly suggestion?: string
}

/** The error of an invalid document. `message` lists every fault, one a line. */
export class ConfigError extends Error {
  readonly code = 'TENANTRY_CONFIG_INVALID'
  readonly faults: readonly Fault[]
  readonly #more: boolean

  /**
   * @param more further faults exist
   * @param source the beginning of the message: the place of the configuration. Default: none
   */
  constructor (faults: readonly Fault[], more = false, source = '') {
    super(
      `${source}the configuration has ${more ? 'at least ' : ''}${faults.length} fault${faults.length === 1 ? '' : 's'}\n${faults.map(formatFault).join('\n')}`
    )
    this.name = 'ConfigError'
    this.faults = faults
    this.#more = more
  }

  /** The same faults; the message begins with the source. */
  from (source: string): ConfigError {
    return new ConfigError(this.faults, this.#more, source)
  }
}

/** One line for one fault: `/routes/0/methd: unknown member, did you mean "method"?` */
export function formatFault ({ pointer, location, message, suggestion }: Fault): string {
  return `${location ?? (pointer || '/')}: ${message}${suggestion === undefined ? '' : `, did you mean "${suggestion}"?`}`
}

/** Collects faults while a document is checked and compiled. */
export class FaultList {
  readonly faults: Fault[] = []

  /** At `limit` faults, a ConfigError of all of them is thrown. Default: no limit. */
  constructor (private readonly limit = Infinity) {}

  add (pointer: string, message: string, suggestion?: string): void {
    this.take([suggestion === undefined ? { pointer, message } : { pointer, message, suggestion }])
  }

  /** Adds faults that another list collected. */
  take (faults: readonly Fault[]): void {
    this.faults.push(...faults)
    if (this.faults.length >= this.limit) throw new ConfigError(this.faults, true)
  }

  /** An empty list with the same limit, for faults that may be discarded. */
  scratch (): FaultList {
    return new FaultList(this.limit)
  }

  /** Throws a ConfigError if there are faults. */
  throwIfAny (): void {
    if (this.faults.length > 0) throw new ConfigError(this.faults)
  }
}

/** The result of the work. Throws a ConfigError of the faults that it adds. */
export function withoutFaults<Result> (work: (faults: FaultList) => Result): Result {
  const faults = new FaultList()
  const result = work(faults)
  faults.throwIfAny()
  return result
}

/** Appends members to a JSON Pointer, escaped as RFC 6901 says. */
export function pointerTo (base: string, ...members: (string | number)[]): string {
  let pointer = base
  for (const member of members) pointer += typeof member === 'number' ? `/${member}` : `/${escaped(member)}`
  return pointer
}

/** The members of a JSON Pointer. */
export function membersIn (pointer: string): string[] {
  return pointer.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The members of a JSON Pointer in the fragment of a URI. */
export function membersInFragment (fragment: string): string[] {
  try {
    return membersIn(decodeURIComponent(fragment))
  } catch {
    return membersIn(fragment)
  }
}

/** Skips the replacement for ordinary names; a document has many. */
function escaped (name: string): string {
  return name.includes('~') || name.includes('/') ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name
}

const maxWordLength = 64 // letters; a longer word is not a typing mistake
const maxCompared = 50_000 // pairs of letters for one word, less than 1 ms: callers choose words, and tenants candidates

/**
 * The candidate nearest to a word, for "did you mean". Of many, the first are compared.
 *
 * @param most the letters that may differ. Default: a third of them
 */
export function nearest (word: string, candidates: Iterable<string>, most = Math.max(1, Math.floor(word.length / 3))): string | undefined {
  if (word.length > maxWordLength) return undefined
  let left = maxCompared
  let best: string | undefined
  let bestDistance = most + 1
  for (const candidate of candidates) {
    if (candidate.length > maxWordLength || Math.abs(candidate.length - word.length) >= bestDistance) continue
    left -= word.length * candidate.length
    if (left < 0) break
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase(), bestDistance)
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** `, did you mean "x"?`, for the end of a sentence about an unknown name; empty without a near candidate. */
export function meant (word: string, candidates: Iterable<string>): string {
  const suggestion = nearest(word, candidates)
  return suggestion === undefined ? '' : `, did you mean "${suggestion}"?`
}

/** The first names, for a message. */
export function listed (names: readonly string[], most: number): string {
  return names.slice(0, most).join(', ') + (names.length > most ? ', ...' : '')
}

/** The number of inserted, removed, replaced or swapped letters (optimal string alignment); it stops counting at `enough`. */
function editDistance (left: string, right: string, enough: number): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i++) {
    const row = [i]
    let least = i
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1]
      let distance = Math.min(last[j - 1]! + (same ? 0 : 1), last[j]! + 1, row[j - 1]! + 1)
      const swapped = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]
      if (swapped) distance = Math.min(distance, beforeLast[j - 2]! + 1)
      row.push(distance)
      if (distance < least) least = distance
    }
    // A swap reaches back two rows, and adds at least one.
    if (least >= enough && Math.min(...last) >= enough - 1) return enough
    beforeLast = last
    last = row
  }
  return last[right.length]!
}
