/** `GET /analytics/summary`. */
import type {} from '../auth/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import { Type, type Static } from 'typebox'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { rangeOf } from './range.js'
import { named } from '../../lib/validation/named-schema.js'
import { maxRoutes } from './store.js'

const maxTextLength = 64 // characters of a date and time

const Time = (description: string) =>
  Type.Optional(Type.String({ maxLength: maxTextLength, description, examples: ['2026-01-31', '2026-01-31T12:00:00Z'] }))
const Query = Type.Object({
  from: Time('A date of UTC, or a date and time. Default: 24 hours before the end.'),
  to: Time('A date of UTC, which is the whole of that day, or a date and time. Default: now.')
}, { additionalProperties: false })

const Rate = (description: string) => Type.Number({ minimum: 0, maximum: 1, description })
const Percentile = (part: string) =>
  Type.Number({ description: `Milliseconds within which ${part} of the requests were answered, to 2.5 %.` })
const errorsOf = 'answered with a status from 500 on'

const Summary = named(
  'AnalyticsSummary',
  Type.Object({
    total: Type.Integer({ description: 'Requests.' }),
    errors: Type.Integer({ description: `Those ${errorsOf}.` }),
    errorRate: Rate(`The part of the requests that was ${errorsOf}: 0 to 1.`),
    routes: Type.Array(
      Type.Object({
        method: Type.String(),
        route: Type.String({
          description:
            'The pattern of the route; `(unknown)` for paths that no route has, `(other)` for what is beyond the lines that an hour keeps.'
        }),
        count: Type.Integer(),
        errorRate: Rate('As above, of this route.'),
        p50: Percentile('half'),
        p95: Percentile('95 %'),
        p99: Percentile('99 %')
      }),
      { maxItems: maxRoutes, description: 'By their count.' }
    )
  })
)

/** @param now the clock, in milliseconds since 1970 */
export function analyticsRoutes (app: FastifyInstance, now: () => number): void {
  const { analytics } = app

  app.get<{ Querystring: Static<typeof Query> }>('/analytics/summary', {
    config: { access: 'platform-admin' },
    schema: {
      tags: ['System'],
      summary: 'Retrieve request counts, errors and durations by route',
      description:
        'Of all requests, or with `X-Tenant-ID` of those of that tenant. Figures are kept by the hour: an hour that the time touches is in them as a whole.',
      querystring: Query,
      response: { 200: Summary, ...errorResponses(400, 401, 403, 404, 429, 500, 503) }
    }
  }, ({ query, tenant }) => analytics.summary(rangeOf(query, now(), analytics.retentionDays), tenant?.id))
}
