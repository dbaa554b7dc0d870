/** The baseline for tenantry's files: a handler that pipes a form's file to the disk, and @fastify/static. */
import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import multipart from '@fastify/multipart'
import fastifyStatic from '@fastify/static'
import Fastify from 'fastify'
import type { ServerSettings } from '../../server-process.js'
import { serve } from '../../server-process.js'

export interface HandWrittenSettings extends ServerSettings {
  readonly folder: string
}

const { folder }: HandWrittenSettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async () => {
  const app = Fastify({ logger: { level: 'warn' } })
  await app.register(multipart, { limits: { fileSize: Infinity } })
  await app.register(fastifyStatic, { root: folder, prefix: '/files/' })

  /** `flush`: the response waits until the bytes are on the disk, as tenantry's does. */
  app.post<{ Querystring: { flush?: string } }>('/upload', async (request, reply) => {
    const part = await request.file()
    if (part === undefined) throw new Error('no file')
    const id = randomUUID()
    await pipeline(part.file, createWriteStream(join(folder, id), { flush: request.query.flush === 'true' }))
    return reply.code(201).send({ id })
  })

  app.delete<{ Params: { id: string } }>('/files/:id', async (request) => {
    await rm(join(folder, request.params.id))
    return { success: true }
  })
  return app
})
