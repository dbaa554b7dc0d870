/** One process with two servers that have one small route: one without the plugins `headers` and `cors`, one with them. */
import Fastify from 'fastify'
import conventions from '../../plugins/conventions/index.js'
import cors from '../../plugins/cors/index.js'
import headers from '../../plugins/headers/index.js'
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'

export interface HeadersSettings extends ServerSettings {
  readonly origins: readonly string[]
}

const { origins }: HeadersSettings = JSON.parse(process.argv[2] ?? '{}')

function create () {
  const app = Fastify()
  // Every server reads headers, as identity does: Node parses them on the first access.
  app.addHook('onRequest', (request, _reply, done) => {
    done(request.headers.authorization === undefined ? undefined : new Error('no user may sign in'))
  })
  return app
}

await serve(async () => {
  const on = create()
  await on.register(headers)
  await on.register(cors, { origins: [...origins] })
  await on.register(conventions)
  on.get('/hello', async () => ({ hello: 'you' }))
  const address = await on.listen({ port: 0, host: '127.0.0.1' })

  const off = create()
  await off.register(conventions)
  off.get('/hello', async () => ({ hello: 'you' }))
  off.get('/on', async () => ({ address }))
  return off
})
