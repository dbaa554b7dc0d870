/**
 * Two plugins on an app's own routes, without a database or a document: `auth` decides who may call, `rate-limit` how often.
 * Run it with `npx tsx examples/plugins/index.ts`.
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import auth from 'tenantry/plugins/auth'
import rateLimit from 'tenantry/plugins/rate-limit'

const app = Fastify({ logger: { level: process.env.LOG_LEVEL ?? 'warn' } })
await app.register(auth, { jwt: { secret: process.env.JWT_SECRET ?? randomBytes(48).toString('base64url') } })
await app.register(rateLimit, { default: { max: 100, windowMs: 60_000 } })

// Routes without `config` are unaffected.
app.get('/', async () => ({ weather: 'fair' }))

app.get('/me', { config: { access: 'user' } }, async ({ auth }) => ({ sub: auth?.sub, role: auth?.role ?? null }))

app.post('/stations', { config: { access: 'user', permissions: ['stations:write'] } }, async (_request, reply) => {
  reply.code(201)
  return { added: true }
})

app.get('/forecast', { config: { access: 'open', rateLimitRule: { max: 3, windowMs: 60_000 } } }, async ({ auth }) => ({
  forecast: 'rain',
  details: auth === null ? 'sign in for more' : 'from noon on, in the north'
}))

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: process.env.HOST ?? '127.0.0.1' })
console.log(`listening on ${address}
a token:
${app.auth.sign({ sub: 'sam', role: 'observer' })}
a token that may add stations:
${app.auth.sign({ sub: 'sue', permissions: ['stations:write'] })}`)
