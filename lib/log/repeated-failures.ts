/** Keeps an outage from filling the log: an error is logged in full once, and its repetitions are counted in one line a minute. */
import type { FastifyBaseLogger } from 'fastify'
import { catalogue, TenantryError } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { isRecord } from '../json/plain-value.js'

const periodMs = 60_000
const maxKinds = 1000 // in a period; further ones are counted

/** Failures of the whole server: one kind for all tenants. */
const ofServer: ReadonlySet<string> = new Set([
  catalogue.databaseUnavailable.code,
  catalogue.databaseBusy.code,
  catalogue.migrationPending.code
])

export type RepeatedFailures = ReturnType<typeof createRepeatedFailures>

export function createRepeatedFailures (log: FastifyBaseLogger) {
  let kinds = new Set<string>()
  let repeated = new Set<string>()
  const counts = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined

  /** Logs the counts of the period, and forgets the kinds without a repetition. */
  function endPeriod (): void {
    for (const [code, failures] of counts) log.error({ code, failures }, 'requests failed with errors that were already logged in full')
    counts.clear()
    kinds = repeated
    repeated = new Set()
    if (kinds.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    /** Whether the error is the first of its kind, which the caller logs in full. Otherwise it is counted. */
    isFirst (error: TenantryError, tenant: Owner | undefined, route?: string): boolean {
      timer ??= setInterval(endPeriod, periodMs).unref()
      const kind = kindOf(error, tenant, route)
      const isKnown = kinds.has(kind)
      if (!isKnown && kinds.size < maxKinds) {
        kinds.add(kind)
        return true
      }
      if (isKnown) repeated.add(kind)
      counts.set(error.code, (counts.get(error.code) ?? 0) + 1)
      return false
    },
    endPeriod,
    /** Logs the counts and stops the timer. */
    close (): void {
      endPeriod()
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** Errors with one code are of different kinds if their causes, or for unexpected errors their routes or places in the code, differ. */
function kindOf ({ code, cause }: TenantryError, tenant: Owner | undefined, route: string | undefined): string {
  const thrown: Record<string, unknown> = isRecord(cause) ? cause : {}
  const { name, code: ownCode, stack } = thrown
  const isUnexpected = code === catalogue.internal.code
  const place = isUnexpected && typeof stack === 'string' ? /\n\s+at .*/.exec(stack)?.[0] : undefined
  return JSON.stringify([
    code,
    ofServer.has(code) ? undefined : tenant,
    shortText(name),
    shortText(ownCode),
    place,
    isUnexpected ? route : undefined
  ])
}

function shortText (value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, 64) : undefined
}
