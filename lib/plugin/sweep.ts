/** Removal of old rows while an app runs. */
import type { FastifyInstance } from 'fastify'
import { everyHour } from '../database/retention.js'

/**
 * Runs the removal every hour until the app closes. A failure is logged, and the next hour tries again.
 *
 * @param rows the rows that are removed, for the log: `old audit entries`
 */
export function sweepHourly (app: FastifyInstance, rows: string, remove: () => Promise<unknown>): void {
  app.addHook(
    'onClose',
    everyHour(remove, (err) => app.log.warn({ err, rows }, 'old rows could not be removed; the next sweep tries again'))
  )
}
