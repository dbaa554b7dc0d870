/** The last use of each key, collected in memory and written outside of requests. */
import type { FastifyBaseLogger } from 'fastify'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Use } from './store.js'

const interval = 60_000 // ms between writes; a key is in each at most once
const maxWaiting = 10_000 // keys with a waiting use; uses of others are dropped until the next write

export interface KeyUses {
  note(tenant: Owner, id: string, at: number): void
  /** The unwritten use, in milliseconds since 1970. */
  waiting(id: string): number | undefined
  /** Writes the waiting uses, and stops. */
  close(): Promise<void>
}

export function createKeyUses (write: (uses: readonly Use[]) => Promise<void>, log: FastifyBaseLogger): KeyUses {
  let pending = new Map<string, { readonly tenant: Owner, at: number }>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()
  let closed = false

  async function flush (): Promise<void> {
    timer = undefined
    if (pending.size === 0) return
    const uses = [...pending].map(([id, { tenant, at }]) => ({ tenant, id, at: new Date(at) }))
    pending = new Map()
    await write(uses).catch(
      (err: unknown) => log.warn({ err, keys: uses.length }, 'the times of the last use of API keys could not be written')
    )
  }

  return {
    note (tenant, id, at) {
      const use = pending.get(id)
      if (use !== undefined) {
        use.at = Math.max(use.at, at)
        return
      }
      if (closed || pending.size >= maxWaiting) return
      pending.set(id, { tenant, at })
      timer ??= setTimeout(() => {
        writing = flush()
      }, interval).unref()
    },
    waiting: (id) => pending.get(id)?.at,
    async close () {
      closed = true
      clearTimeout(timer)
      await writing
      await flush()
    }
  }
}
