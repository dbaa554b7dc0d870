/** Routes whose body is a form with files. */
import type { FastifyInstance } from 'fastify'
import multipart from '@fastify/multipart'
import { formLimits } from '../files/form-limits.js'

/** Leaves the bodies of forms to the routes of the context. */
export async function acceptForms (app: FastifyInstance): Promise<void> {
  app.decorateRequest('receivedForm', null)
  await app.register(multipart, { limits: formLimits, throwFileSizeLimit: false })
}
