/** A server with one small route, with the plugins `headers` and `cors` or without them. */
import type { ServerSettings } from '../server-process.js'
import Fastify from 'fastify'
import conventions from '../../plugins/conventions/index.js'
import cors from '../../plugins/cors/index.js'
import headers from '../../plugins/headers/index.js'
import { serve } from '../server-process.js'

export interface HeadersSettings extends ServerSettings {
  /** Without them there are no plugins. */
  readonly origins: readonly string[] | null
}

const { origins }: HeadersSettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async () => {
  const app = Fastify()
  // Every server reads headers, as identity does: Node parses them at the first look.
  app.addHook('onRequest', (request, _reply, done) => {
    done(request.headers.authorization === undefined ? undefined : new Error('no one may sign in'))
  })
  if (origins !== null) {
    await app.register(headers)
    await app.register(cors, { origins: [...origins] })
  }
  await app.register(conventions)
  app.get('/hello', async () => ({ hello: 'you' }))
  return app
})
