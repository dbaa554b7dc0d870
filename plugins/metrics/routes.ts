/** `GET /metrics`. */
import { Type } from 'typebox'
import { errorResponses } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { sendText } from '../../lib/http/send-text.js'

const refusals = [401, 403, 429, 500, 503] as const

export function metricsRoutes (app: FastifyGroup): void {
  const { metrics } = app
  let writing: Promise<string> | null = null

  app.get('/metrics', {
    config: {
      access: 'platform-admin',
      // Its response is text, and its errors are JSON.
      openapi: {
        tags: ['System'],
        summary: 'Retrieve metrics of the server for Prometheus',
        description:
          'Returns the text format 0.0.4 of Prometheus. Values from the database are read at most every 5 seconds, and are omitted if the database does not respond within one second.',
        produces: ['text/plain'],
        response: { 200: Type.String() },
        errors: [...refusals]
      }
    },
    schema: { response: errorResponses(...refusals) }
  }, async (_request, reply) => {
    // Concurrent requests get the same text.
    writing ??= metrics.metrics().finally(() => {
      writing = null
    })
    return sendText(reply, await writing, metrics.contentType)
  })
}
