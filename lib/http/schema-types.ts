/** Types of requests and responses from the schemas of their routes. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, FastifyTypeProvider, RawServerDefault } from 'fastify'
import type { Static, TSchema } from 'typebox'

/** Fastify's type provider for TypeBox schemas. That of `@fastify/type-provider-typebox` refuses read-only values in responses. */
export interface SchemaTypes extends FastifyTypeProvider {
  validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown
  serializer: this['schema'] extends TSchema ? DeepReadonly<Static<this['schema']>> : unknown
}

type DeepReadonly<Value> = Value extends object
  ? Value extends Date ? Value : { readonly [Name in keyof Value]: DeepReadonly<Value[Name]> }
  : Value

/** The context of endpoints: handlers have the types of their schemas. */
export type FastifyGroup = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, SchemaTypes>
