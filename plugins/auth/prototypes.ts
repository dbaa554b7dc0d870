/** Replaces decorators of requests and replies, for which Fastify has no function. */
import type { FastifyInstance } from 'fastify'

type Kind = 'Request' | 'Reply'

/** Returns the current decorator. Throws without one. */
export function decoratorOf (app: FastifyInstance, kind: Kind, name: string): object {
  const found: unknown = Reflect.get(prototypeOf(app, kind), name)
  if (typeof found !== 'function') throw new Error(`@fastify/jwt is registered without the decorator ${name}`)
  return found
}

/** Replaces the decorator in the context, its children and existing ones. Parent contexts keep theirs. */
export function replaceDecorator (app: FastifyInstance, kind: Kind, name: string, value: object): void {
  Reflect.defineProperty(prototypeOf(app, kind), name, { value, writable: true, configurable: true, enumerable: true })
}

/** A context stores the classes of its requests and replies under symbols. */
function prototypeOf (app: FastifyInstance, kind: Kind): object {
  for (let context: unknown = app; isObject(context); context = Object.getPrototypeOf(context)) {
    const symbol = Object.getOwnPropertySymbols(context).find(({ description }) => description === `fastify.${kind}`)
    const made: unknown = symbol === undefined ? undefined : Reflect.get(context, symbol)
    if (typeof made === 'function' && isObject(made.prototype)) return made.prototype
  }
  throw new Error(`this version of Fastify does not say which class its ${kind === 'Request' ? 'requests' : 'replies'} have: use Fastify 5`)
}

function isObject (value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
