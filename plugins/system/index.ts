/**
 * `GET /system/info`, for administrators of the platform (DESIGN 11). A route group: it registers an endpoint and decorates
 * nothing. Needs the plugin auth; what the plugins database, cache, queue and usage know is told where they are.
 */
import type {} from '../auth/index.js'
import type {} from '../cache/store.js'
import type {} from '../database/index.js'
import type {} from '../queue/index.js'
import type {} from '../usage/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { systemRoutes } from './routes.js'

export interface SystemOptions {
  /** What the configuration of this server is told from others by. Default: none. */
  readonly configurationVersion?: string | null | undefined
  /** Groups of built-in endpoints that are off, whose paths other routes may have. Default: none. */
  readonly off?: readonly string[] | undefined
}

export async function system (app: FastifyInstance, { configurationVersion = null, off = [] }: SystemOptions): Promise<void> {
  // Without it nothing would stand between a stranger and what runs here.
  requireDecorator(app, 'auth', 'auth', 'system')
  await app.register(conventions)
  systemRoutes(app, { configurationVersion, off: new Set(off) })
}

export default fp(system, { name: 'tenantry-system', fastify: '5.x', encapsulate: true })
