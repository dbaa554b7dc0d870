/** Work of a request that may hold the event loop: computing values, and reading or copying long texts. It takes turns of the tenant. */
import { createYielder } from '../concurrency/event-loop-yielder.js'
import type { Engine } from '../database/engine.js'
import type { Scope } from '../expressions/types.js'
import { noTenant } from '../identity/tenant-ref.js'

/** Characters of a result, which take a millisecond to read if they contain many keys. */
export const longResult = 16_384
const copies = 2 // of each character

/** How work gets its turn. */
export interface Turns {
  /** Counts the text that waits, and refuses it. null if it is counted otherwise, or a refusal would come after a write or a call. */
  readonly memory: Engine['resultMemory'] | null
  /** false in a transaction, which would hold a connection: there the work begins at once, and counts all the same. */
  readonly waits: boolean
}

export const unrefused: Turns = { memory: null, waits: true }
export const inTransaction: Turns = { memory: null, waits: false }

interface Computing {
  readonly tenant: Scope['tenant']
  /** Characters of the text that is read. */
  readonly length: number
  readonly turns: Turns
}

/** Runs the work in a turn of the tenant. Rejects with `responsesBusy` if the requests of the tenant keep too many results. */
export async function inTurn<Result> ({ tenant, length, turns }: Computing, work: () => Result): Promise<Result> {
  const yielder = createYielder(tenant?.id)
  if (!turns.waits) yielder.begin()
  else if (yielder.shouldYield()) {
    const held = turns.memory?.hold(tenant?.id ?? noTenant)
    held?.text(length)
    try {
      held?.requireRoom()
      await yielder.yield()
    } finally {
      held?.release()
    }
  }
  try {
    return work()
  } finally {
    yielder.done(copies * length)
  }
}
