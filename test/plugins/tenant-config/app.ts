/** An app with the plugins that tenants' documents need. */
import type { Test } from 'tap'
import Fastify, { type FastifyInstance } from 'fastify'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import openapi from '../../../plugins/openapi/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import { testSecret } from '../../helpers/tokens.js'

export function ownApp (t: Test): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  app.register(database, { provider: 'embedded' })
  app.register(auth, { jwt: { secret: testSecret } })
  app.register(tenancy)
  app.register(rateLimit)
  app.register(openapi, {})
  return app
}
