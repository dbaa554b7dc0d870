/** An app with the plugins that tenants' documents need. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { testApp, type TestPlugins } from '../../helpers/app.js'

export async function ownApp (t: Test, further: TestPlugins, routes?: (app: FastifyInstance) => unknown): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { tenancy: {}, 'rate-limit': {}, openapi: {}, ...further },
    engine: { provider: 'embedded' },
    ...routes !== undefined && { routes }
  })
  return app
}
