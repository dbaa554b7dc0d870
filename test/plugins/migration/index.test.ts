import type { FastifyInstance } from 'fastify'
import Fastify from 'fastify'
import { test } from 'tap'
import database from '../../../plugins/database/index.js'
import migration from '../../../plugins/migration/index.js'

test('a start without a plugin that the endpoints need names it', async (t) => {
  const messageOf = async (prepare: (app: FastifyInstance) => void) => {
    const app = Fastify({ pluginTimeout: 0 })
    t.teardown(() => app.close())
    prepare(app)
    app.register(migration)
    return await app.ready().then(() => 'it started', (error: Error) => error.message)
  }
  t.equal(await messageOf(() => {}), 'register the plugin "tenantry/plugins/database" before "tenantry/plugins/migration", which needs it')
  t.equal(
    await messageOf((app) => {
      app.register(database, { provider: 'embedded', embedded: {}, tables: {}, migrate: 'auto' })
    }),
    'register the plugin "tenantry/plugins/auth" before "tenantry/plugins/migration", which needs it'
  )
})
