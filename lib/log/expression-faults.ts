/** Warnings on expressions that cannot be computed. */
import type { FastifyBaseLogger } from 'fastify'
import type { ExpressionFault, ReportFault } from '../compiler/condition.js'
import { LRUCache } from 'lru-cache'

const period = 60_000 // ms: callers choose the values, and must not fill the log
const maxPlaces = 10_000

/** The places of which a warning was written lately, by tenant. */
const recent = new LRUCache<string, true>({ max: maxPlaces, ttl: period })

/** Logs a warning once a minute for each place of each tenant's requests; `tenant` is null for a request without one. */
export function expressionFaults (log: FastifyBaseLogger, tenant: string | null): ReportFault {
  return ({ pointer, reason }: ExpressionFault) => {
    const place = JSON.stringify([tenant, pointer])
    if (recent.has(place)) return
    recent.set(place, true)
    log.warn({ tenant, expression: pointer, reason }, 'an expression could not be computed: its condition does not hold')
  }
}
