/** Figures of requests. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

export const maxRetentionDays = 366
const maxFlushInterval = 3_600_000 // ms
const maxBuffered = 100_000 // requests

export const Analytics = ClosedObject({
  enabled: Type.Boolean({ description: 'Count requests for `GET /analytics/summary`.' }),
  excludePaths: Optional.Array(
    'Routes that are not counted: declared paths, or prefixes with `*` at the end.',
    Type.String({
      maxLength: 500,
      pattern: '^/[^*]*\\*?$',
      expected: 'a path as it is declared, or the beginning of paths with `*` at its end'
    }),
    { maxItems: 1000, uniqueItems: true, default: [] }
  ),
  serviceName: Optional.String(
    'The name under which servers share their counts. Servers with different names on the same database have separate counts.',
    { maxLength: 64, pattern: '^[A-Za-z0-9 ._:/@-]*$', expected: 'at most 64 letters, digits, spaces and `. _ : / @ -`', default: '' }
  ),
  retentionDays: Optional.Integer(
    'The number of days for which counts are kept, and the longest period of a summary.',
    { minimum: 1, maximum: maxRetentionDays, default: 30, unit: 'days' }
  ),
  buffer: Type.Optional(ClosedObject({
    enabled: Optional.Boolean('If false, each request is written after its response.', { default: true }),
    flushInterval: Optional.Integer(
      'The maximum time until a request is written.',
      { minimum: 1, maximum: maxFlushInterval, default: 10_000, unit: 'ms' }
    ),
    maxSize: Optional.Integer(
      'The number of waiting requests that triggers an earlier write, at most once per second.',
      { minimum: 1, maximum: maxBuffered, default: 1000 }
    )
  }, { default: {}, description: 'Sums up requests in memory before they are written.' }))
}, { default: { enabled: false }, description: 'Counts, failures and durations of requests.' })
export type Analytics = Static<typeof Analytics>
