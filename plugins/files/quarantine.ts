/**
 * Scans files in quarantine. A clean file becomes readable; any other file stays. An instance claims each file that it scans, and
 * the claim expires if its process ends. Tenants take turns, so that one with many files does not delay others.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely } from 'kysely'
import { FairSemaphore } from '../../lib/concurrency/fair-semaphore.js'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { ping, scan, type ScannerAddress, ScannerUnavailable, type Verdict } from '../../lib/files/clamd.js'
import type { ObjectStore } from '../../lib/files/store.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import { emitFile, writeInfected } from './events.js'
import { retryMs, type ScanStore } from './scan-store.js'
import { keyOf } from './store.js'

const maxScans = 4 // scans of a process; clamd has ten threads by default
const maxScansOfTenant = 2
const leaseMs = 30_000 // ms for which other instances leave a claimed file alone
const pingMs = 2_000
const turnMs = 60_000 // ms for a tenant to wait for its turn
const tenantsPerCheck = 100 // tenants in one check

/** Ends a worker that got no turn in time, or before the stop: no failure. */
const noTurn = new Error('no turn for a scan')

export interface QuarantineParts {
  readonly scanner: ScannerAddress
  readonly scans: ScanStore
  readonly objects: Pick<ObjectStore, 'get'>
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly emitter: () => Pick<Webhooks, 'emit' | 'wake'> | null
  readonly now: () => number
  readonly log: FastifyBaseLogger
}

export type Quarantine = ReturnType<typeof createQuarantine>

export function createQuarantine ({ scanner, scans, objects, dbFor, emitter, now, log }: QuarantineParts) {
  const gate = new FairSemaphore(maxScans, turnMs, { keepsFree: false })
  const closing = new AbortController()
  const working = new KeyCounts<Owner>()
  const workers = new Set<Promise<void>>()
  /** Tenants whose workers check once more before they end. */
  const again = new Set<string>()
  let isDown = false
  let lastTenant = ''

  const canScan = () => !closing.signal.aborted && !isDown

  /** Scans files of the tenant until none is due. */
  function start (tenant: Owner): void {
    if (!canScan()) return
    if (working.of(tenant) >= maxScansOfTenant) {
      again.add(tenant)
      return
    }
    working.add(tenant, 1)
    const worker = work(tenant)
      // The next check tries again.
      .catch((err: unknown) => {
        if (err !== noTurn) log.warn({ err, tenant }, 'files in quarantine could not be scanned: retrying')
      })
      .finally(() => {
        workers.delete(worker)
        working.add(tenant, -1)
        if (again.delete(tenant)) start(tenant)
      })
    workers.add(worker)
  }

  async function work (tenant: Owner): Promise<void> {
    while (canScan() && await gate.run(tenant, () => noTurn, () => scanNext(tenant)));
  }

  /** Returns false if there is nothing to scan, or the scanner has failed. */
  async function scanNext (tenant: Owner): Promise<boolean> {
    const id = await scans.claim(tenant, leaseMs)
    if (id === null) return false
    const renewal = setInterval(() => {
      scans.moveTo(tenant, id, leaseMs).catch((err: unknown) =>
        log.warn({ err, tenant, file: id }, 'the claim of a scan could not be renewed')
      )
    }, leaseMs / 3)
    try {
      const bytes = await objects.get(keyOf(tenant, id))
      if (bytes === null) throw new Error('the object of the file is missing')
      await settle(tenant, id, await scan(scanner, bytes, closing.signal))
      return true
    } catch (error) {
      await failed(tenant, id, error)
      return !(error instanceof ScannerUnavailable)
    } finally {
      clearInterval(renewal)
    }
  }

  async function settle (tenant: Owner, id: string, verdict: Verdict): Promise<void> {
    const at = new Date(now())
    const settled = await dbFor(tenant).transaction().execute(async (transaction) => {
      const file = await scans.settle(transaction, tenant, id, verdict)
      if (file === null) return null
      if (verdict.status === 'clean') await emitFile(transaction, emitter(), file, 'file.created', at)
      if (verdict.status === 'infected') await writeInfected(transaction, file, verdict.signature, at)
      return file
    })
    if (settled === null) return
    if (verdict.status === 'clean') emitter()?.wake()
    else log.warn({ tenant, file: id, ...verdict }, 'a file stays in quarantine')
  }

  async function failed (tenant: Owner, id: string, err: unknown): Promise<void> {
    if (closing.signal.aborted) return await scans.moveTo(tenant, id, 0)
    const isUnavailable = err instanceof ScannerUnavailable
    await (isUnavailable ? scans.moveTo(tenant, id, retryMs) : scans.postpone(tenant, id))
    // A single file may be the cause of a lost connection. It must not stop the scans of other files.
    if (isUnavailable && !isDown && !await isReachable()) {
      isDown = true
      log.error({ err }, 'the scanner of files cannot be reached: uploaded files stay in quarantine')
    } else log.warn({ err, tenant, file: id }, 'a file could not be scanned; it is tried again')
  }

  const isReachable = () => ping(scanner, pingMs).then(() => true, () => false)

  /** Starts the scans that are due, also of files of other instances. */
  async function scanDue (): Promise<void> {
    if (isDown) {
      if (!await isReachable()) return
      isDown = false
      log.info('the scanner of files can be reached again')
    }
    const tenants = await scans.dueTenants(lastTenant, tenantsPerCheck)
    // The next check begins after the last tenant of this one.
    lastTenant = tenants.length < tenantsPerCheck ? '' : tenants.at(-1) ?? ''
    for (const tenant of tenants) for (let count = working.of(tenant); count < maxScansOfTenant; count++) start(tenant)
  }

  return {
    scanDue,
    /** Call it when the tenant has a new file in quarantine. */
    wake: start,
    /** Rejects if the scanner cannot be reached. */
    check: (timeoutMs: number): Promise<void> => ping(scanner, timeoutMs),
    /** Aborts running scans. Their files become due for other instances. */
    async close (): Promise<void> {
      closing.abort()
      gate.close()
      await Promise.all(workers)
    }
  }
}

/** Parses `host:port` from the document. */
export function scannerAddress (text: string): ScannerAddress {
  const colon = text.lastIndexOf(':')
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) }
}
