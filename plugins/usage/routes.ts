/** The endpoints of usage, and their schemas. */
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { tenantOf } from '../tenancy/required.js'
import { HistoryEntry, Report, Summary } from './report.js'

const HistoryQuery = ClosedObject({
  period: Type.Optional(Type.String({ description: 'The month in UTC: `YYYY-MM`. Default: the current month.', examples: ['2026-02'] }))
})
const History = Type.Object({
  history: Type.Array(HistoryEntry, { maxItems: 31, description: 'The days of the month up to today.' })
})

const tags = ['Usage']
const config = { access: 'user' } as const

/** @param hasReport adds `GET /billing/usage` */
export function usageRoutes (app: FastifyGroup, hasReport: boolean): void {
  const { usage: service } = app

  app.get('/usage/summary', {
    config,
    schema: { tags, summary: 'Retrieve usage of the current month', response: { 200: Summary, ...callerErrors() } }
  }, (request) => service.summary(tenantOf(request)))

  app.get('/usage/history', {
    config,
    schema: {
      tags,
      summary: 'Retrieve usage of a month by day',
      querystring: HistoryQuery,
      response: { 200: History, ...callerErrors() }
    }
  }, async (request) => ({ history: await service.history(tenantOf(request), monthOf(request.query.period)) }))

  if (!hasReport) return
  app.get('/billing/usage', {
    config,
    schema: {
      tags,
      summary: 'Retrieve current usage and the limits of the plan',
      response: { 200: Report, ...callerErrors() }
    }
  }, (request) => service.report(tenantOf(request)))
}

function monthOf (period: string | undefined): string | undefined {
  if (period === undefined || /^\d{4}-(?:0[1-9]|1[0-2])$/.test(period)) return period
  throw invalidInput('/query/period', 'must be a month as YYYY-MM, from 01 to 12, such as 2026-02', 'format')
}
