/** The bodies of webhook routes. They are kept as bytes, which senders sign, and parsed after their signature is verified. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { createJsonParser } from '../../lib/http/json-body.js'
import { formOf, isForm } from '../../lib/webhooks/form.js'
import type { WebhookProvider } from '../../lib/webhooks/schemes.js'

/**
 * Keeps the bodies of webhook routes in this context as bytes. Other routes get parsed JSON, as elsewhere.
 * @param takesForm the route refuses other bodies itself
 */
export function keepSignedBodies (
  app: FastifyInstance,
  isWebhook: (request: FastifyRequest) => boolean,
  takesForm: (request: FastifyRequest) => boolean = () => false
): void {
  const parseJson = createJsonParser(app)
  if (!app.hasRequestDecorator('signed')) app.decorateRequest('signed', false)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (isWebhook(request)) done(null, body)
    else parseJson(request, body, done)
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (isWebhook(request)) done(null, body)
    else done(takesForm(request) ? null : failure('mediaTypeUnsupported'))
  })
}

const jsonType = /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i

/** Throws `mediaTypeUnsupported` for a body that is compressed, is not UTF-8, or is neither JSON nor a form. */
export function requireReadable ({ headers }: FastifyRequest, body: Buffer): void {
  const { 'content-encoding': coding, 'content-type': type } = headers
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw failure('mediaTypeUnsupported', { message: 'Send the body without Content-Encoding' })
  }
  if (type === undefined && body.length === 0) return
  if (!isForm(type) && !jsonType.test(type ?? '')) {
    throw failure('mediaTypeUnsupported', { message: 'Send the body as application/json or application/x-www-form-urlencoded' })
  }
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(type ?? '')?.[1]
  if (charset !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(charset)) {
    throw failure('mediaTypeUnsupported', { message: 'Send the body in UTF-8' })
  }
}

/** Parses a signed body. Rejects with `badRequest` if the body does not match its Content-Type. */
export function createReadBody (app: FastifyInstance) {
  const parseJson = createJsonParser(app)
  const json = async (request: FastifyRequest, body: Buffer) =>
    await new Promise<unknown>((resolve, reject) => {
      parseJson(request, body, (error, value) => error === null ? resolve(value) : reject(error))
    })
  return async (request: FastifyRequest, body: Buffer, provider: WebhookProvider): Promise<unknown> => {
    const type = request.headers['content-type']
    if (type === undefined) return undefined
    if (!isForm(type)) return await json(request, body)
    const form = formOf(body)
    if (form === null) throw failure('badRequest', { message: 'The form is not valid UTF-8, or has more than 1000 fields' })
    const { payload } = form
    // Set to send forms, GitHub and Slack put JSON into the field `payload`; Slack's interactions always do.
    return (provider === 'github' || provider === 'slack') && typeof payload === 'string' ? await json(request, Buffer.from(payload)) : form
  }
}
