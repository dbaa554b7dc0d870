/** The catalogue of a running engine. It is read at the start, after migrations, and when a statement no longer fits the tables. */
import { createBatcher } from '../concurrency/batcher.js'
import type { Catalogue } from './catalogue.js'
import type { Reading } from './catalogue-reader.js'
import { withDeclared } from './declared-tables.js'
import type { EngineLog } from './engine.js'
import type { PlanOptions } from './migrations/plan.js'

const refreshPauseMs = 1000 // ms between refreshes after failed statements

interface LiveCatalogueOptions extends Pick<PlanOptions, 'schema' | 'wanted' | 'rowLevelSecurity'> {
  readonly read: () => Promise<Reading>
  readonly log: EngineLog
}

export function createLiveCatalogue ({ schema, wanted, rowLevelSecurity, read, log }: LiveCatalogueOptions) {
  const listeners = new Set<(catalogue: Catalogue) => void>()
  let reading: Reading = { catalogue: withDeclared({ schema, tables: new Map() }, wanted), constraints: new Map() }
  let fingerprint = ''
  let timer: NodeJS.Timeout | null = null
  let lastRefresh = -Infinity
  let isClosed = false
  // A running read may have begun before the caller's change of the tables, so the caller waits for the next read.
  const refresh = createBatcher<void, Catalogue>(readAgain)

  async function readAgain (): Promise<Catalogue> {
    const { catalogue, constraints } = await read()
    const print = JSON.stringify(catalogue, (_name, value: unknown) => value instanceof Map ? [...value] : value)
    if (print === fingerprint) {
      // Nothing is compiled from constraints: their columns are only for errors.
      reading = { catalogue: reading.catalogue, constraints }
      return reading.catalogue
    }
    const isFirst = fingerprint === ''
    fingerprint = print
    reading = { catalogue: withDeclared({ ...catalogue, rowLevelSecurity }, wanted), constraints }
    for (const listener of isFirst ? [] : listeners) {
      try {
        listener(reading.catalogue)
      } catch (err) {
        log.warn({ err }, 'a listener for changed tables failed')
      }
    }
    return reading.catalogue
  }

  return {
    get current () {
      return reading
    },
    /** Reads the tables now. */
    refresh,
    /** Reads the tables soon, at most once a second. */
    refreshSoon (): void {
      if (timer !== null || isClosed) return
      const wait = Math.max(0, lastRefresh + refreshPauseMs - performance.now())
      timer = setTimeout(() => {
        timer = null
        lastRefresh = performance.now()
        refresh().catch((err: unknown) => log.warn({ err }, 'the schema of the database could not be read again'))
      }, wait)
      timer.unref()
    },
    /** Calls the listener after each change. Returns a function that ends the calls. */
    onChange (listener: (catalogue: Catalogue) => void): () => void {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    close (): void {
      isClosed = true
      if (timer !== null) clearTimeout(timer)
    }
  }
}
