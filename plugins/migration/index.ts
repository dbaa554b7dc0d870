/**
 * What the database lacks, as SQL to read and as a button to press: the `/migration` endpoints, for platform
 * administrators. A route group: it registers endpoints and decorates nothing. Needs the plugins database and auth.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { migrationRoutes } from './routes.js'
import { createMigrationService } from './service.js'

export interface MigrationOptions {
  /** `GET /migration/quick-fix` is refused. Default: whether NODE_ENV is `production`. */
  readonly production?: boolean
}

export async function migration (app: FastifyInstance, { production = process.env.NODE_ENV === 'production' }: MigrationOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'migration')
  // Without it nothing would stand between a stranger and these endpoints.
  requireDecorator(app, 'auth', 'auth', 'migration')
  await app.register(conventions)
  migrationRoutes(app, createMigrationService(app.engine), production)
}

export default fp(migration, { name: 'tenantry-migration', fastify: '5.x', encapsulate: true })
