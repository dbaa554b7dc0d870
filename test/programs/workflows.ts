/**
 * A process that runs asynchronous workflows, with only the necessary plugins. TEST_DATABASE is the address of the database, which is
 * migrated; TEST_DOCUMENT has the sections `workflows` and `customIntegrations`. It prints when it is ready, and stops cleanly at SIGTERM.
 */
import Fastify from 'fastify'
import auth from '../../plugins/auth/index.js'
import database from '../../plugins/database/index.js'
import integrations from '../../plugins/integrations/index.js'
import outbound from '../../plugins/outbound/index.js'
import queue from '../../plugins/queue/index.js'
import tenancy from '../../plugins/tenancy/index.js'
import webhooks from '../../plugins/webhooks/index.js'
import workflows from '../../plugins/workflows/index.js'

const sections = JSON.parse(process.env['TEST_DOCUMENT'] ?? '{}')
const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace' } })
app.register(database, { provider: 'postgres', postgres: { connectionString: process.env['TEST_DATABASE'] ?? '' } })
app.register(auth, {})
app.register(tenancy)
app.register(queue, { stopTimeoutMs: 500 })
app.register(outbound, {})
const { customIntegrations, workflows: declared } = sections
app.register(integrations, { customIntegrations })
app.register(webhooks, { masterKey: process.env['SECRETS_MASTER_KEY'] })
app.register(workflows, { customIntegrations, workflows: declared })
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
