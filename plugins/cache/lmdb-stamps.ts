/**
 * Stamps in the file: by table, the change counter at its last write. The counter only grows, so the greatest of several stamps represents
 * all of them. All but `of` run in a transaction.
 */
import type { Database, RootDatabase } from 'lmdb'
import { everyTenant, type TableUse } from '../../lib/cache/store.js'

const maxTables = 100 // of a tenant with their own stamp; tenants choose the names of their collections
const maxSharedTables = 10_000
const maxOwners = 100_000 // tenants with their own stamps

export type LmdbStamps = ReturnType<typeof createLmdbStamps>

/** The empty table is the tenant itself: earlier values of it are not found. */
type Key = [owner: string, table: string]

export function createLmdbStamps (env: RootDatabase, state: Database<number, string>) {
  const stamps = env.openDB<number, Key>({ name: 'stamps' })

  function next (): number {
    const change = (state.get('changes') ?? 0) + 1
    state.put('changes', change)
    return change
  }

  /** Adds the owner; false if there were too many, and everything is now outdated. */
  function know (owner: string, change: number): boolean {
    if (stamps.get([owner, '']) !== undefined) return true
    const owners = (state.get('owners') ?? 0) + 1
    if (owners > maxOwners) {
      forgetAll(change)
      return false
    }
    state.put('owners', owners)
    stamps.put([owner, ''], 0)
    return true
  }

  function forget (owner: string, change: number): void {
    if (!know(owner, change)) return
    for (const key of keysOf(owner)) stamps.remove(key)
    stamps.put([owner, ''], change)
  }

  function forgetAll (change: number): void {
    for (const key of [...stamps.getKeys()]) stamps.remove(key)
    state.put('owners', 1)
    stamps.put([everyTenant, ''], change)
  }

  function keysOf (owner: string): Key[] {
    // No id contains a space, and every other character sorts after it.
    return [...stamps.getKeys({ start: [owner, ''], end: [`${owner} `, ''] })]
  }

  return {
    /** The current stamp of the tables. */
    of (tenant: string, reads: readonly TableUse[]): number {
      let stamp = Math.max(stamps.get([everyTenant, '']) ?? 0, stamps.get([tenant, '']) ?? 0)
      for (const { table, scoped } of reads) {
        const written = stamps.get(keyOf(tenant, table, scoped))
        if (written !== undefined && written > stamp) stamp = written
      }
      return stamp
    },
    written (tenant: string, writes: readonly TableUse[]): void {
      const change = next()
      for (const { table, scoped } of writes) {
        const key = keyOf(tenant, table, scoped)
        const isNew = stamps.get(key) === undefined
        if (isNew && !know(key[0], change)) return
        stamps.put(key, change)
        if (!isNew || keysOf(key[0]).length <= (scoped ? maxTables : maxSharedTables)) continue
        if (scoped) forget(tenant, change)
        else forgetAll(change)
      }
    },
    /** Everything of the tenant, or of all, has changed. */
    clear (tenant: string): void {
      const change = next()
      if (tenant === everyTenant) forgetAll(change)
      else forget(tenant, change)
    }
  }
}

function keyOf (tenant: string, table: string, scoped: boolean): Key {
  return [scoped ? tenant : everyTenant, `t${table}`]
}
