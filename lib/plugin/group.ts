/** An entry in the table of a server's plugins. */
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { orderOf, type Order } from './define.js'

export interface Group<Assembly> {
  readonly order: Order
  isEnabled(assembly: Assembly): boolean
  register(app: FastifyInstance, assembly: Assembly): void
}

export interface GroupParts<Options, Assembly> {
  /** Default: always. */
  readonly enabled?: (assembly: Assembly) => boolean
  readonly options: (assembly: Assembly) => Options
}

export function group<Options extends object, Assembly> (
  plugin: FastifyPluginAsync<Options>,
  { enabled = () => true, options }: GroupParts<Options, Assembly>
): Group<Assembly> {
  return {
    order: orderOf(plugin),
    isEnabled: enabled,
    register (app, assembly) {
      app.register(plugin, () => options(assembly))
    }
  }
}
