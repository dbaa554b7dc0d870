/** Figures of requests. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const maxRetentionDays = 366
export const maxFlushInterval = 3_600_000 // ms
export const maxBuffered = 100_000 // requests

export const Analytics = Section({
  enabled: Type.Boolean({ description: 'Whether requests are counted, for `GET /analytics/summary`.' }),
  excludePaths: Type.Optional(
    Type.Array(
      Type.String({
        maxLength: 500,
        pattern: '^/[^*]*\\*?$',
        expected: 'a path as it is declared, or the start of paths with `*` at its end'
      }),
      {
        maxItems: 1000,
        uniqueItems: true,
        default: [],
        description: 'Routes that are not counted: paths as they are declared, or with `*` at the end all that begin like it.'
      }
    )
  ),
  serviceName: Type.Optional(
    Type.String({
      maxLength: 64,
      pattern: '^[A-Za-z0-9 ._:/@-]*$',
      expected: 'at most 64 letters, digits, spaces and `. _ : / @ -`',
      default: '',
      description: 'Servers of one name share their figures; those of another name on the same database have their own.'
    })
  ),
  retentionDays: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxRetentionDays,
      default: 30,
      unit: 'days',
      description: 'How long figures are kept, and what a summary spans at most.'
    })
  ),
  buffer: Type.Optional(Section({
    enabled: Type.Optional(Type.Boolean({ default: true, description: 'false: each request is written when it has been answered.' })),
    flushInterval: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxFlushInterval,
        default: 10_000,
        unit: 'ms',
        description: 'How long a request waits at most until it is written.'
      })
    ),
    maxSize: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxBuffered,
        default: 1000,
        description: 'Requests: when as many wait they are written before their time, once a second at most.'
      })
    )
  }, { default: {}, description: 'Requests are summed up in memory before they are written.' }))
}, { default: { enabled: false }, description: 'Figures of requests: how many, how many failed, and how long they took.' })
export type Analytics = Static<typeof Analytics>
