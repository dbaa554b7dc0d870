/** The compilers of an app's own routes: Fastify's, loaded by the first schema, and each serializer once for each schema. */
import { createRequire } from 'node:module'
import type { BuildCompilerFromPool } from '@fastify/ajv-compiler'
import type { SerializerFactory } from '@fastify/fast-json-stringify-compiler'
import { sharedByText } from '../cache/weak-memo.js'

type SerializerCompiler = ReturnType<SerializerFactory>

const load = createRequire(import.meta.url)
let compilerOf: SerializerFactory | undefined
const sharedOf = sharedByText<SerializerCompiler>()

/** Fastify's `buildSerializer`: hundreds of error responses share a few schemas, which Fastify would compile for every route and status. */
export const buildSerializer: SerializerFactory = (schemas, options) =>
  sharedOf(JSON.stringify([schemas, options]), () => {
    compilerOf ??= loadSerializers()
    const compile = compilerOf(schemas, options)
    const serializerOf = sharedByText<ReturnType<SerializerCompiler>>()
    return (route) => serializerOf(JSON.stringify(route.schema), () => compile(route))
  })

function loadSerializers (): SerializerFactory {
  const { SerializerSelector }: typeof import('@fastify/fast-json-stringify-compiler') = load('@fastify/fast-json-stringify-compiler')
  return SerializerSelector()
}

/** `buildValidator`, which Fastify would load for every app. Contexts of this package have a compiler of their own. */
export const buildValidator: BuildCompilerFromPool = (schemas, options) => {
  const { default: select }: typeof import('@fastify/ajv-compiler') = load('@fastify/ajv-compiler')
  return select()(schemas, options)
}
