/** `GET /analytics/summary`. */
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { timeQuery } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { rangeOf } from './service.js'
import { maxRoutes } from './store.js'

const Query = ClosedObject({
  from: timeQuery('The start: a date in UTC, or a date and time. Default: 24 hours before `to`.'),
  to: timeQuery('The end: a date in UTC, including that whole day, or a date and time. Default: now.')
})

const Rate = (description: string) => Type.Number({ minimum: 0, maximum: 1, description })
const Percentile = (part: string) =>
  Type.Number(
    { description: `The duration in milliseconds within which ${part} of the requests received their response, accurate to 2.5 %.` }
  )
const errorsOf = 'with a response status of 500 or higher'

const Summary = named(
  'AnalyticsSummary',
  Type.Object({
    total: Type.Integer({ description: 'The number of requests.' }),
    errors: Type.Integer({ description: `The number of requests ${errorsOf}.` }),
    errorRate: Rate(`The share of requests ${errorsOf}: 0 to 1.`),
    routes: Type.Array(
      Type.Object({
        method: Type.String(),
        route: Type.String({
          description: 'The pattern of the route; `(unknown)` for paths without a route, `(other)` for routes beyond the maximum per hour.'
        }),
        count: Type.Integer(),
        errorRate: Rate('The share of requests of this route with a response status of 500 or higher: 0 to 1.'),
        p50: Percentile('half'),
        p95: Percentile('95 %'),
        p99: Percentile('99 %')
      }),
      { maxItems: maxRoutes, description: 'The routes, most requests first.' }
    )
  })
)

/** @param now the clock, in milliseconds since 1970 */
export function analyticsRoutes (app: FastifyGroup, now: () => number): void {
  const { analytics } = app

  app.get('/analytics/summary', {
    config: { access: 'platform-admin' },
    schema: {
      tags: ['System'],
      summary: 'Retrieve request counts, errors and durations by route',
      description:
        'Covers all requests, or with `X-Tenant-ID` the requests of that tenant. Counts are kept per hour: an hour that is partly in the period is included as a whole.',
      querystring: Query,
      response: { 200: Summary, ...callerErrors() }
    }
  }, ({ query, tenant }) => analytics.summary(rangeOf(query, now(), analytics.retentionDays), tenant?.id))
}
