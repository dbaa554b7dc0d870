/** Routes that accept a form with files as the body. */
import type { FastifyInstance } from 'fastify'
import multipart from '@fastify/multipart'
import { formLimits } from '../files/form-limits.js'

/** Accepts multipart bodies in this context; its routes parse them. */
export async function acceptForms (app: FastifyInstance): Promise<void> {
  app.decorateRequest('receivedForm', null)
  await app.register(multipart, { limits: formLimits, throwFileSizeLimit: false })
}
