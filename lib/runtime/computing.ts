/** Work of a request that may hold the event loop: computing values, and reading or copying long texts. It takes turns of the tenant. */
import { createYielder, turns, type Yielder } from '../concurrency/event-loop-yielder.js'
import type { Engine } from '../database/engine.js'
import type { Scope } from '../expressions/types.js'
import { accountOfAddress } from '../http/account.js'
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

/** The tenant of the work, or else the address of its caller. */
type Worker = Pick<Scope, 'tenant' | 'ip'>

interface Computing {
  readonly worker: Worker
  /** Characters of the text that is read. */
  readonly length: number
  readonly turns: Turns
}

export function yielderOf ({ tenant, ip }: Worker): Yielder {
  // Without the plugin tenancy, a request has no member `tenant`.
  const id = tenant?.id
  return id !== undefined || ip === undefined ? createYielder(id) : turns.yielder(accountOfAddress(ip))
}

/** Runs the work in a turn of the tenant. Rejects with `responsesBusy` if the requests of the tenant keep too many results. */
export async function inTurn<Result> ({ worker, length, turns: { memory, waits } }: Computing, work: () => Result): Promise<Result> {
  const yielder = yielderOf(worker)
  if (!waits) yielder.begin()
  else if (yielder.shouldYield()) {
    const held = memory?.hold(worker.tenant?.id ?? noTenant)
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
