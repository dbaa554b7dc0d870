/** The table of a server's plugins, and the order of their registration. A server loads only the modules of the plugins that it uses. */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { type Order, orderOf } from './define.js'
import { ofDocument } from './failures.js'

export interface Group<Assembly, Options extends object = object> {
  isEnabled(assembly: Assembly): boolean
  load(): Promise<LoadedGroup<Assembly, Options>>
}

export interface LoadedGroup<Assembly, Options extends object = object> {
  readonly order: Order
  /** `changes` replace options of the table. */
  register(app: FastifyInstance, assembly: Assembly, changes?: Partial<Options>): void
}

interface GroupParts<Options, Assembly> {
  /** Default: always. */
  readonly enabled?: (assembly: Assembly) => boolean
  readonly options: (assembly: Assembly) => NoInfer<Options>
}

export function group<Options extends object, Assembly> (
  load: () => Promise<{ readonly default: FastifyPluginAsync<Options> }>,
  { enabled = () => true, options }: GroupParts<Options, Assembly>
): Group<Assembly, Options> {
  return {
    isEnabled: enabled,
    async load () {
      const { default: plugin } = await load()
      return {
        order: orderOf(plugin),
        register (app, assembly, changes) {
          app.register(plugin, () => ofDocument({ ...options(assembly), ...changes }))
        }
      }
    }
  }
}

/** Sorts plugins: each after those that it needs or uses early, endpoints last, others as they are. Throws an error that names a circle. */
export function sortPlugins<Entry extends { readonly order: Order }> (entries: readonly Entry[]): Entry[] {
  const sorted: Entry[] = []
  const names = new Set(entries.map(({ order }) => order.name))
  const observers = entries.filter(({ order }) => order.observesRoutes).map(({ order }) => order.name)
  const done = new Set<string>()
  let waiting = entries
  while (waiting.length > 0) {
    const next = waiting.find(({ order }) => earlier(order, observers).every((name) => !names.has(name) || done.has(name)))
    if (next === undefined) throw new Error(`these plugins depend on each other: ${waiting.map(({ order }) => order.name).join(', ')}`)
    sorted.push(next)
    done.add(next.order.name)
    waiting = waiting.filter((entry) => entry !== next)
  }
  return sorted
}

function earlier (
  { name, dependencies, routeDependencies, after, hasEndpoints, observesRoutes }: Order,
  observers: readonly string[]
): string[] {
  const own = [...dependencies, ...routeDependencies, ...after]
  // Plugins that act on routes and also have endpoints do not wait for each other.
  return hasEndpoints && !observesRoutes ? [...own, ...observers].filter((other) => other !== name) : own
}
