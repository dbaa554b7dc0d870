/** Query strings of built-in endpoints: unknown parameters are refused. */
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { isRecord } from '../json/plain-value.js'

const noParameters = Type.Object({}, { additionalProperties: false })

/**
 * Closes the query strings of this context's routes with a schema. Declared routes check their requests themselves. Hidden routes serve
 * files of pages.
 */
export function closeQueries (group: FastifyInstance): void {
  group.addHook('onRoute', (route) => {
    const { schema } = route
    if (schema === undefined || schema.hide === true) return
    const { querystring } = schema
    route.schema = { ...schema, querystring: isRecord(querystring) ? { ...querystring, additionalProperties: false } : noParameters }
  })
}
