/**
 * Writes the figures in memory: every second, at stop, and before figures are read. If the response to a batch was lost, the
 * batch is written again under its number, and counts once.
 */
import type { FastifyBaseLogger } from 'fastify'
import { createBatcher } from '../../lib/concurrency/batcher.js'
import { isFailure } from '../../lib/errors.js'
import type { WaitingCounts } from './counts.js'
import type { Gauges } from './gauges.js'
import type { Batch, UsageStore } from './store.js'

const every = 1000 // ms; after thirty of them without a heartbeat, other instances count this one as gone
const resolveEvery = 3 // beats
const maxEntries = 10_000 // of one batch

export interface LedgerParts {
  readonly store: Pick<UsageStore, 'write' | 'resolve' | 'retire'>
  readonly instance: string
  readonly counts: WaitingCounts
  readonly gauges: Pick<Gauges, 'changed' | 'written' | 'rewrite' | 'isChanged'>
  /** Ends reservations whose settlement or release could not be written. */
  readonly settleLate: () => Promise<void>
  readonly log: FastifyBaseLogger
}

export function createLedger ({ store, instance, counts, gauges, settleLate, log }: LedgerParts) {
  /** The batch that was sent and is not confirmed. */
  let pending: Batch | null = null
  let batches = 0
  let isKnown = false
  let isBeatDue = false
  let beats = 0
  let beating: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let isFailing = false
  let closed = false
  const flush = createBatcher<void, void>(writeAll)

  async function writeAll (): Promise<void> {
    const isBeat = isBeatDue
    isBeatDue = false
    if (isBeat || pending !== null || counts.size > 0 || gauges.isChanged()) await writeWaiting()
    await settleLate()
  }

  async function writeWaiting (): Promise<void> {
    for (let more = true; more;) {
      // After an unconfirmed batch, the newer counts are written. Counts made from here on wait for the next flush.
      more = pending !== null
      if (pending === null) {
        const taken = counts.take(maxEntries)
        more = taken.more
        pending = { number: ++batches, figures: taken.figures }
      }
      await write(pending)
      pending = null
      isKnown = true
    }
  }

  async function write (batch: Batch): Promise<void> {
    const values = gauges.changed()
    try {
      const isNew = await store.write(instance, batch, values).catch((error: unknown) => {
        // A tenant was deleted while the statement ran. The next attempt sees that.
        if (isFailure(error, 'constraintViolated')) return store.write(instance, batch, values)
        throw error
      })
      if (isNew) gauges.written()
      else gauges.rewrite()
    } catch (error) {
      gauges.rewrite()
      throw error
    }
  }

  async function beat (): Promise<void> {
    beats++
    isBeatDue = true
    try {
      await flush()
      if (beats % resolveEvery === 0) await store.resolve()
      if (isFailing) log.info('usage is written again')
      isFailing = false
      const dropped = counts.dropped()
      if (dropped > 0) log.warn({ requests: dropped }, 'requests were not counted: too many tenants waited for the database')
    } catch (err) {
      if (!isFailing) log.warn({ err }, 'usage cannot be written; it is kept, and written later')
      isFailing = true
    }
  }

  function start (): void {
    if (closed) return
    timer = setTimeout(() => {
      beating = beat().then(start)
    }, every).unref()
  }

  return {
    /** Writes all counts until now. Rejects if that fails; the counts are kept and tried again. Concurrent calls share a write. */
    flush,
    /** Resolves when the database has a row for the instance; at once if it already does. */
    registered (): void | Promise<void> {
      if (isKnown) return
      isBeatDue = true
      return flush()
    },
    /** Starts to write every second. */
    start,
    /** Writes the rest, and ends the open reservations and resources of the instance. */
    async close (): Promise<void> {
      closed = true
      clearTimeout(timer)
      await beating
      try {
        await flush()
        if (isKnown) await store.retire(instance)
      } catch (err) {
        log.error(
          { err, entries: counts.size + (pending?.figures.tenants.length ?? 0) },
          'the usage before the stop could not be written'
        )
      }
    }
  }
}
