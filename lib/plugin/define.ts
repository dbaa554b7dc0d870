/**
 * The shape of every plugin of this package. A definition names the plugins that it depends on, checks its options, and
 * has a service, endpoints, or both. The service acts on the context that registers the plugin. The endpoints have a
 * context of their own below it, so that Fastify's `prefix` and `logLevel` work, and `routes: false` leaves them out.
 */
import type { SerializerFactory } from '@fastify/fast-json-stringify-compiler'
import type { FastifyInstance, FastifyPluginAsync, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import { keepNextTickFast } from '../concurrency/next-tick.js'
import { codeOf } from '../errors.js'
import { noStore } from '../http/caching.js'
import { equip } from '../http/equip.js'
import { allowMissingLimits } from '../http/guards.js'
import { prefixOf } from '../http/prefix.js'
import type { FastifyGroup, SchemaTypes } from '../http/schema-types.js'
import { isRecord } from '../json/plain-value.js'
import { serializeExactly } from '../json/stringify.js'
import { ClosedObject } from '../schema/annotations.js'
import { buildSerializer } from '../validation/fastify-compilers.js'
import { validatorCompiler } from '../validation/validator.js'
import { isOfDocument, namingPlugin } from './failures.js'
import { checkOptions, type OptionChecks, withoutUndefined } from './options.js'

/** Adds the endpoints to a context with the conventions: errors, validation, JSON bodies, query strings without unknown parameters. */
export type Endpoints = (group: FastifyGroup) => void | Promise<void>

export interface Definition<Options extends object> {
  /** The last part of the import path: `audit` for "tenantry/plugins/audit". */
  readonly name: string
  /** Plugins that must be registered before this one. Default: none. */
  readonly dependencies?: readonly string[]
  /** Plugins that must be registered before its endpoints. Default: it has no endpoints. */
  readonly routeDependencies?: readonly string[]
  /** Plugins that it uses if they are registered, before it or after; see `optional`. Default: none. */
  readonly optional?: readonly string[]
  /** Plugins that it uses if they are registered before it. The start fails if one of them is registered later. Default: none. */
  readonly after?: readonly string[]
  /** It acts on routes that are registered after it, so a server registers it before the endpoints of others. Default: false. */
  readonly observesRoutes?: boolean
  readonly options: OptionChecks<Options>
  /** Adds hooks and decorators to the context that registers the plugin. Returns the endpoints, if there are any. */
  readonly setup: (app: FastifyInstance, options: Options) => Endpoints | void | Promise<Endpoints | void>
}

/** The place of a plugin in the order of registration. */
export interface Order
  extends Required<Pick<Definition<never>, 'name' | 'dependencies' | 'routeDependencies' | 'optional' | 'after' | 'observesRoutes'>> {
  readonly hasEndpoints: boolean
}

/** Options of every plugin that has endpoints. */
export interface EndpointOptions extends Pick<RegisterOptions, 'prefix' | 'logLevel' | 'logSerializers'> {
  /** false: no endpoints, the service alone. Default: true. */
  readonly routes?: boolean | undefined
}

const orders = new WeakMap<object, Order>()

/** The options of a plugin and of its endpoints. A document's `routes` belong to the plugin itself. */
export type RegisteredWith<Options> = Options & Omit<EndpointOptions, keyof Options>

/** Returns the plugin for Fastify's `register`, which rejects with an error that names the missing plugin or the wrong options. */
export function definePlugin<Options extends object> (definition: Definition<Options>): FastifyPluginAsync<RegisteredWith<Options>> {
  const { name, dependencies = [], routeDependencies = [], optional = [], after = [], observesRoutes = false, setup } = definition
  const hasEndpoints = definition.routeDependencies !== undefined

  const plugin: FastifyPluginAsync<RegisteredWith<Options>> = async (app, given) => {
    checkOptions(`the plugin "${pathOf(name)}"`, definition.options, given, hasEndpoints)
    const options = withoutUndefined(definition.options, given)
    keepNextTickFast()
    const addsEndpoints = hasEndpoints && !('routes' in options && options.routes === false)
    if (addsEndpoints) { for (const other of routeDependencies) requirePlugin(app, other, name, ofEndpoints) }
    for (const other of after) refuseLater(app, other, name)
    const isOwn = !isOfDocument(given)
    const endpoints = await adding(name, isOwn, 'members', () => setup(app, options))
    if (!addsEndpoints || endpoints === undefined) return
    await adding(name, isOwn, 'endpoints', () => app.register(fp(async (group) => {
      notePrefix(group, name)
      allowMissingLimits(group)
      equip(group)
      compileLazily(group)
      closeQueries(group)
      // The responses of these endpoints contain data of one caller. A cacheable endpoint overrides the header.
      group.addHook('onRequest', noStore)
      await endpoints(group.withTypeProvider<SchemaTypes>())
    }, { name: `${fastifyNameOf(name)} endpoints`, encapsulate: true }), registerOptionsOf(options)))
  }
  orders.set(plugin, { name, dependencies, routeDependencies, optional, after, observesRoutes, hasEndpoints })
  return fp(plugin, { name: fastifyNameOf(name), fastify: '5.x', dependencies: new Dependencies(name, dependencies) })
}

/** The prefixes of each plugin's endpoints, by the HTTP server, which all contexts of an app share. */
const prefixes = new WeakMap<FastifyInstance['server'], Map<string, Set<string>>>()

function notePrefix (group: FastifyInstance, name: string): void {
  const known = prefixes.get(group.server) ?? new Map<string, Set<string>>()
  prefixes.set(group.server, known)
  known.set(name, (known.get(name) ?? new Set()).add(prefixOf(group)))
}

/** The prefixes under which a plugin has endpoints, in all contexts of the app so far. */
export function prefixesOf (app: FastifyInstance, name: string): Iterable<string> {
  return prefixes.get(app.server)?.get(name) ?? []
}

/** The reasons for which another plugin is required. */
const ofPlugin = ', which requires it'
const ofEndpoints = ', whose endpoints require it, or leave these out with `routes: false`'

/** Fastify's errors for members and routes that the app has already name neither the plugin nor a way out. */
const remedies: ReadonlyMap<unknown, string> = new Map([
  ['FST_ERR_DEC_ALREADY_PRESENT', ' Register the plugin once, in the outermost context that uses it, or rename your own decorator. If another plugin has it, register one of the two in a context of its own'],
  ['FST_ERR_DUPLICATED_ROUTE', '. Register the plugin once or with a `prefix`, or give your own route another path']
])

/** @param isOwn an app of one's own registers the plugin: errors about options and the database name the plugin */
async function adding<Result> (name: string, isOwn: boolean, parts: string, add: () => Result | PromiseLike<Result>): Promise<Result> {
  try {
    return await add()
  } catch (cause) {
    const remedy = cause instanceof Error ? remedies.get(codeOf(cause)) : undefined
    if (!(cause instanceof Error) || remedy === undefined) throw isOwn ? namingPlugin(pathOf(name), cause) : cause
    throw new Error(`the plugin "${pathOf(name)}" cannot add its ${parts} to the app: ${cause.message}${remedy}`, { cause })
  }
}

/** The place of a plugin that `definePlugin` returned. */
export function orderOf (plugin: object): Order {
  const order = orders.get(plugin)
  if (order === undefined) throw new Error('the plugin was not created by definePlugin')
  return order
}

/** Fastify applies these to the context of the endpoints. */
function registerOptionsOf ({ prefix, logLevel, logSerializers }: RegisterOptions): RegisterOptions {
  return {
    ...prefix !== undefined && { prefix },
    ...logLevel !== undefined && { logLevel },
    ...logSerializers !== undefined && { logSerializers }
  }
}

type SerializerCompiler = ReturnType<SerializerFactory>

/** For routes of this context. */
function compileLazily (app: FastifyInstance): void {
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
      return serializeExactly(serialize, data)
    }
  })
}

const noParameters = ClosedObject({})

/** Closes the query strings of routes with a schema. Declared routes check requests themselves; hidden routes serve files of pages. */
function closeQueries (group: FastifyInstance): void {
  group.addHook('onRoute', (route) => {
    const { schema } = route
    if (schema === undefined || schema.hide === true) return
    const { querystring } = schema
    route.schema = { ...schema, querystring: isRecord(querystring) ? { ...querystring, additionalProperties: false } : noParameters }
  })
}

/** The import path of a plugin: "tenantry/plugins/audit" for `audit`. */
function pathOf (name: string): string {
  return `tenantry/plugins/${name}`
}

/** The name under which Fastify knows a plugin: "tenantry-audit" for `audit`. */
export function fastifyNameOf (name: string): string {
  return `tenantry-${name}`
}

/** The `dependencies` of a plugin's metadata, which Fastify checks by `forEach`. The error of this list also gives the remedy. */
class Dependencies extends Array<string> {
  readonly #plugin: string

  /** Results of `map`, `slice` and others are plain arrays: the constructor takes no length. */
  static override get [Symbol.species] (): ArrayConstructor {
    return Array
  }

  constructor (plugin: string, names: readonly string[]) {
    super()
    this.#plugin = plugin
    this.push(...names.map(fastifyNameOf))
  }

  override forEach (check: (name: string, index: number, all: string[]) => void): void {
    for (const [index, name] of this.entries()) {
      try {
        check(name, index, this)
      } catch (cause) {
        throw missing(name.replace('tenantry-', ''), this.#plugin, ofPlugin, cause)
      }
    }
  }
}

/** Throws unless the plugin is registered in this context or above it. */
export function requirePlugin (app: FastifyInstance, name: string, wanting: string, reason = ofPlugin): void {
  if (!app.hasPlugin(fastifyNameOf(name))) throw missing(name, wanting, reason)
}

/** Fails the start if the plugin is registered from now on, because `wanting` looks for it only once. */
function refuseLater (app: FastifyInstance, name: string, wanting: string): void {
  if (app.hasPlugin(fastifyNameOf(name))) return
  app.addHook('onReady', async () => {
    if (app.hasPlugin(fastifyNameOf(name))) {
      throw new Error(`register the plugin "${pathOf(name)}" before "${pathOf(wanting)}", which otherwise does not use it`)
    }
  })
}

function missing (name: string, wanting: string, reason: string, cause?: unknown): Error {
  return new Error(`register the plugin "${pathOf(name)}" before "${pathOf(wanting)}"${reason}`, { cause })
}

/** Returns a function for the decorator. It returns null until a plugin has added the decorator. */
export function optional<Name extends keyof FastifyInstance & string> (
  app: FastifyInstance,
  name: Name
): () => FastifyInstance[Name] | null {
  let found: FastifyInstance[Name] | null = null
  return () => {
    if (found === null && app.hasDecorator(name)) found = app[name]
    return found
  }
}

/** Throws if the decorator `reader` was added in a context above `app`: its plugin would not see the decorators that `plugin` adds. */
export function requireSameContext (app: FastifyInstance, reader: keyof FastifyInstance & string, plugin: string): void {
  if (!app.hasDecorator(reader) || Object.hasOwn(app, reader)) return
  throw new Error(
    `register the plugin "${pathOf(plugin)}" in the context that has \`${reader}\`: plugins of a context do not see what is registered below it`
  )
}
