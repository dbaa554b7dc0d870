/**
 * Compiles the schemas of built-in endpoints when a request first needs them. A server has hundreds: compiling all is half of its start,
 * and most servers use few. Schemas of an app's own routes are compiled at start, which fails for invalid ones.
 */
import type { SerializerFactory } from '@fastify/fast-json-stringify-compiler'
import type { FastifyInstance } from 'fastify'
import { buildSerializer } from '../validation/fastify-compilers.js'
import { validatorCompiler } from '../validation/validator.js'

type SerializerCompiler = ReturnType<SerializerFactory>

/** For routes of this context. */
export function compileLazily (app: FastifyInstance): void {
  app.setValidatorCompiler<object>((route) => {
    let validate: ReturnType<typeof validatorCompiler> | undefined
    return (value) => {
      validate ??= validatorCompiler(route)
      return validate(value)
    }
  })
  let compile: SerializerCompiler | undefined
  app.setSerializerCompiler(({ httpStatus = '', ...route }) => {
    let serialize: ReturnType<SerializerCompiler> | undefined
    return (data) => {
      compile ??= buildSerializer(app.getSchemas(), {})
      serialize ??= compile({ ...route, httpStatus })
      return serialize(data)
    }
  })
}
