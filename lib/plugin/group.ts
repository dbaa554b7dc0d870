/** An entry in the table of a server's plugins. A server loads only the modules of the plugins that it uses. */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { orderOf, type Order } from './define.js'

export interface Group<Assembly> {
  isEnabled(assembly: Assembly): boolean
  load(): Promise<LoadedGroup<Assembly>>
}

export interface LoadedGroup<Assembly> {
  readonly order: Order
  register(app: FastifyInstance, assembly: Assembly): void
}

export interface GroupParts<Options, Assembly> {
  /** Default: always. */
  readonly enabled?: (assembly: Assembly) => boolean
  readonly options: (assembly: Assembly) => Options
}

export function group<Options extends object, Assembly> (
  load: () => Promise<{ readonly default: FastifyPluginAsync<Options> }>,
  { enabled = () => true, options }: GroupParts<Options, Assembly>
): Group<Assembly> {
  return {
    isEnabled: enabled,
    async load () {
      const { default: plugin } = await load()
      return {
        order: orderOf(plugin),
        register (app, assembly) {
          app.register(plugin, () => options(assembly))
        }
      }
    }
  }
}
