/**
 * An existing Fastify app with its own routes and error bodies. Five plugins of tenantry add a declared part to its API.
 * Run it with `npx tsx examples/embed/index.ts`.
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import auth from 'tenantry/plugins/auth'
import configRoutes from 'tenantry/plugins/config-routes'
import database from 'tenantry/plugins/database'
import openapi from 'tenantry/plugins/openapi'
import rateLimit from 'tenantry/plugins/rate-limit'

// The database connects and migrates while its plugin registers: that may take longer than Fastify's default of ten seconds.
const app = Fastify({ logger: { level: process.env.LOG_LEVEL ?? 'warn' }, pluginTimeout: 60_000 })

// The existing app: its routes and error bodies stay as they are.
app.setErrorHandler((error, _request, reply) => {
  app.log.error(error)
  reply.code(500).send({ problem: 'the shop has a problem' })
})
app.get('/', async () => ({ shop: 'open' }))
app.get('/broken', async () => {
  throw new Error('on purpose')
})

// The plugins of tenantry. The database is in memory; a real app configures its PostgreSQL here.
await app.register(database, {
  provider: 'embedded',
  tables: {
    products: {
      columns: {
        id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
        name: { type: 'text', notNull: true, unique: true },
        price: { type: 'integer', notNull: true } // cents
      }
    }
  }
})
await app.register(auth, { jwt: { secret: process.env.JWT_SECRET ?? randomBytes(48).toString('base64url') } })
await app.register(rateLimit, { default: { max: 100, windowMs: 60_000 } })
await app.register(openapi, { title: 'Shop' })
await app.register(configRoutes, {
  routes: [
    {
      path: '/products',
      method: 'get',
      description: 'What the shop has, the cheapest first.',
      queries: [{ table: 'products', operation: 'select', order: { column: 'price' } }]
    },
    {
      path: '/products',
      method: 'post',
      description: 'Adds a product.',
      requiredPermissions: ['products:write'],
      request: {
        body: {
          name: { type: 'string', required: true, minLength: 1, maxLength: 100 },
          price: { type: 'integer', required: true, minimum: 0, description: 'Cents.' }
        }
      },
      queries: [{ table: 'products', operation: 'insert' }]
    }
  ]
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: process.env.HOST ?? '127.0.0.1' })
console.log(`listening on ${address}
a token that may add products:
${app.auth.sign({ sub: 'sam', permissions: ['products:write'] })}`)
