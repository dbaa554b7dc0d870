/** The serializer of built-in endpoints and of an app's own routes: Fastify's compiler, run once for each schema. */
import type { SerializerFactory } from '@fastify/fast-json-stringify-compiler'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import { sharedByText } from '../cache/weak-memo.js'

type SerializerCompiler = ReturnType<SerializerFactory>

const compilerOf = SerializerSelector()
const sharedOf = sharedByText<SerializerCompiler>()

/**
 * Fastify's `schemaController.compilersFactory.buildSerializer`. The hundreds of error responses share a few schemas, which Fastify would
 * compile again for every route and status.
 */
export const buildSerializer: SerializerFactory = (schemas, options) =>
  sharedOf(JSON.stringify([schemas, options]), () => {
    const compile = compilerOf(schemas, options)
    const serializerOf = sharedByText<ReturnType<SerializerCompiler>>()
    return (route) => serializerOf(JSON.stringify(route.schema), () => compile(route))
  })
