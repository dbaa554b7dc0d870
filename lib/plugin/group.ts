/** An entry in the table of a server's plugins, under its plugin's name. A server loads only the modules of the plugins that it uses. */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { orderOf, type Order } from './define.js'

export interface Group<Assembly, Options extends object = object> {
  isEnabled(assembly: Assembly): boolean
  load(): Promise<LoadedGroup<Assembly, Options>>
}

export interface LoadedGroup<Assembly, Options extends object = object> {
  readonly order: Order
  /** `changes` replace options of the table. */
  register(app: FastifyInstance, assembly: Assembly, changes?: Partial<Options>): void
}

export interface GroupParts<Options, Assembly> {
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
          app.register(plugin, () => ({ ...options(assembly), ...changes }))
        }
      }
    }
  }
}
