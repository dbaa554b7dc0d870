/** Routes whose body is a form with files. */
import type { FastifyInstance } from 'fastify'
import type { CompiledRoute } from '../../lib/compiler/route.js'
import type { RouteCall } from '../../lib/http/route-exchange.js'
import type { RouteFiles } from '../files/declared.js'
import multipart from '@fastify/multipart'
import { formLimits } from '../files/form-limits.js'

/** Leaves the bodies of forms to the routes of the context. */
export async function acceptForms (app: FastifyInstance): Promise<void> {
  app.decorateRequest('receivedForm', null)
  await app.register(multipart, { limits: formLimits, throwFileSizeLimit: false })
}

/** Reads the form, whose fields become the body of the request, and runs the work; its files are removed if the work rejects. */
export async function withForm<Request extends RouteCall> (
  { files, request: { validateForm } }: CompiledRoute,
  forms: RouteFiles<Request> | null,
  request: Request,
  work: () => Promise<string>
): Promise<string> {
  if (forms === null || files === null) throw new Error('the plugin files is not registered')
  const form = await forms.receive(request, { files, validate: (fields) => validateForm?.(fields) })
  request.receivedForm = form
  request.body = form.fields
  try {
    const body = await work()
    await form.end()
    return body
  } catch (error) {
    await form.discard(error)
    throw error
  }
}
