/** Warnings on expressions that cannot be computed. */
import type { Owner } from '../identity/tenant-ref.js'
import type { ExpressionFault, ReportFault } from './condition.js'
import { LRUCache } from 'lru-cache'

const period = 60_000 // ms: callers choose the values, and must not fill the log
const maxPlaces = 10_000

/** The used part of a Fastify logger. */
interface WarningLog {
  warn (details: object, message: string): void
}

/** Places with a recent warning, by tenant. */
const recent = new LRUCache<string, true>({ max: maxPlaces, ttl: period })

/** Turns the pointer of a compiled part into its place in the document. */
export type PlaceOf = (pointer: string) => string

const asCompiled: PlaceOf = (pointer) => pointer

/** Logs a warning once a minute for each place of each tenant's requests; `tenant` is null for a request without one. */
export function expressionFaults (log: WarningLog, tenant: Owner | null, placeOf: PlaceOf = asCompiled): ReportFault {
  return ({ pointer, reason }: ExpressionFault) => {
    const expression = placeOf(pointer)
    const place = JSON.stringify([tenant, expression])
    if (recent.has(place)) return
    recent.set(place, true)
    log.warn({ tenant, expression, reason }, 'an expression could not be computed: its condition counts as false')
  }
}
