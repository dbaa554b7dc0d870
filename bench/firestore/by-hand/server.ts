/** A Fastify server that verifies tokens and calls the Firestore client library by hand. */
import fastifyJwt from '@fastify/jwt'
import { Firestore } from '@google-cloud/firestore'
import Fastify, { LogController } from 'fastify'
import { serve } from '../../server-process.js'
import type { FirestoreSettings } from '../settings.js'

const { emulatorHost, projectId }: FirestoreSettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async ({ jwtSecret }) => {
  const client = new Firestore({
    projectId,
    host: emulatorHost,
    ssl: false,
    credentials: { client_email: 'emulator', private_key: 'emulator' }
  })
  const app = Fastify({ logger: { level: 'warn' }, logController: new LogController({ disableRequestLogging: true }) })
  app.addHook('onClose', () => client.terminate())
  await app.register(fastifyJwt, { secret: jwtSecret, verify: { cache: true, algorithms: ['HS256'] } })
  app.get<{ Params: { id: string } }>('/notes/:id', async (request, reply) => {
    const { authorization = '' } = request.headers
    const user: { tenant_id: string } = app.jwt.verify(authorization.replace(/^Bearer /, ''))
    const document = await client.doc(`tenants/${user.tenant_id}/notes/${request.params.id}`).get()
    if (!document.exists) return await reply.code(404).send({ error: 'Not Found' })
    return { ...document.data(), id: document.id }
  })
  return app
})
