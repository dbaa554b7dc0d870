/**
 * Watches that are about to begin. A watch begins after the positions of all changes that were committed before its request, so
 * that no later commit is missed.
 */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { ChangeState, ChangeStore } from './store.js'
import type { Watch } from './types.js'

/** The start of a watch. */
export type Begin = Pick<ChangeState, 'position' | 'floor'>

interface Opening {
  readonly watch: Watch
  readonly begin: (at: Begin) => void
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  /** Changes up to this place must get positions first. */
  until: number | undefined
  /** The start, once those changes have positions. */
  at: Begin | undefined
}

/** Adds the watch to those of its tenant. Returns the last position that they were sent; null if that is before `position`. */
export type Enter = (watch: Watch, position: number) => number | null

export class Openings {
  readonly #store: Pick<ChangeStore, 'standings' | 'assignPositionsOf'>
  #waiting: Opening[] = []

  constructor (store: Pick<ChangeStore, 'standings' | 'assignPositionsOf'>) {
    this.#store = store
  }

  get size (): number {
    return this.#waiting.length
  }

  /** Resolves when the watch has begun. `begin` is called at that moment. */
  add (watch: Watch, begin: (at: Begin) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ watch, begin, resolve, reject, until: undefined, at: undefined })
    })
  }

  /** Begins the watches that can begin. For the others, gives positions to a batch of their tenant's changes. */
  async settle (enter: Enter): Promise<void> {
    const waiting = this.#waiting.filter(({ at }) => at === undefined)
    const tenants = new Set(waiting.map(({ watch }) => watch.tenant))
    const standings = tenants.size === 0 ? [] : await this.#store.standings([...tenants])
    const byTenant = new Map(standings.map((standing) => [standing.tenant, standing]))
    const late = new Set<Owner>()
    for (const opening of waiting) {
      const standing = byTenant.get(opening.watch.tenant)
      if (standing === undefined) continue
      if (!isBehind(opening, standing)) opening.at = { position: standing.position, floor: standing.floor }
      else if (!opening.watch.isClosed) late.add(standing.tenant)
    }
    this.#waiting = this.#waiting.filter((opening) => !begins(opening, enter))
    for (const tenant of late) await this.#store.assignPositionsOf(tenant)
  }

  fail (error: unknown): void {
    const failed = this.#waiting
    this.#waiting = []
    for (const { reject } of failed) reject(error)
  }
}

/** Whether changes that were committed before the request still lack positions. */
function isBehind (opening: Opening, { oldest, newest }: ChangeState): boolean {
  opening.until ??= newest ?? 0
  return oldest !== null && oldest <= opening.until
}

function begins ({ watch, begin, resolve, at }: Opening, enter: Enter): boolean {
  if (!watch.isClosed) {
    const position = at === undefined ? null : enter(watch, at.position)
    if (at === undefined || position === null) return false
    begin({ position, floor: at.floor })
  }
  resolve()
  return true
}
