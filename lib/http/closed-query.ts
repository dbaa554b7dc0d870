/** Query strings of built-in endpoints: an unknown parameter is refused, and never ignored. */
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { isRecord } from '../json/plain-value.js'

const noParameters = Type.Object({}, { additionalProperties: false })

/**
 * Closes the query strings of the routes of this context that have a schema. Declared routes have none: they check their
 * requests themselves. Hidden routes are files of pages.
 */
export function closeQueries (group: FastifyInstance): void {
  group.addHook('onRoute', (route) => {
    const { schema } = route
    if (schema === undefined || schema.hide === true) return
    const { querystring } = schema
    route.schema = { ...schema, querystring: isRecord(querystring) ? { ...querystring, additionalProperties: false } : noParameters }
  })
}
