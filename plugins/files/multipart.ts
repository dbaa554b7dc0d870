/**
 * Forms, read by @fastify/multipart. The plugin is not registered: Fastify refuses a second registration below that of an embedding app,
 * whose options, such as `attachFieldsToBody`, would apply here.
 */
import type { Multipart } from '@fastify/multipart'
import type { FastifyInstance } from 'fastify'
import { failure } from '../../lib/errors.js'
import { boundaryOf, pipeBody } from './body.js'
import { formLimits } from './buckets.js'
import { FormBody } from './form-body.js'

type FormLimits = Partial<typeof formLimits> & Pick<typeof formLimits, 'parts'>

export interface Form {
  /** Reads the body. */
  parts(limits?: FormLimits): AsyncGenerator<Multipart>
}

const forms = new WeakMap<object, Form>()
let reader: Promise<object> | undefined
// It would log the headers of the request, which contain its token.
const silent = { debug () {}, trace () {} }

/** Accepts forms in this context; its routes read them. */
export async function acceptForms (app: FastifyInstance): Promise<void> {
  const members = await (reader ??= loadReader())
  app.decorateRequest('receivedForm', null)
  app.addContentTypeParser('multipart/form-data', (request, raw, done) => {
    forms.set(request, {
      async * parts (limits = formLimits) {
        const boundary = boundaryOf(raw)
        if (boundary === undefined) {
          throw failure('badRequest', { message: 'The Content-Type of the form must have a boundary of 1 to 70 characters' })
        }
        const body = pipeBody(raw, new FormBody(boundary, limits.parts))
        const form = Object.assign(Object.create(members), { raw: body, log: silent, isMultipart: () => true })
        yield * form.parts({ limits })
      }
    })
    done(null)
  })
}

/** Leaves bodies of other types unread in this context: its routes refuse them, and name the type that they take. */
export function leaveOtherBodies (app: FastifyInstance): void {
  app.addContentTypeParser('*', (_request, _raw, done) => done(null))
}

/** The form that the request brings along; undefined for other bodies. */
export function formOf (request: object): Form | undefined {
  return forms.get(request)
}

/** The members that @fastify/multipart gives to requests. The stand-in for an app collects them. */
async function loadReader (): Promise<object> {
  const { default: multipart } = await import('@fastify/multipart')
  const members = {}
  const collector: FastifyInstance = Object.assign(Object.create(null), {
    decorateRequest: (name: string | symbol, value: unknown) => Reflect.set(members, name, value),
    hasRequestDecorator: () => true,
    decorate () {},
    addHook () {},
    addContentTypeParser () {}
  })
  multipart(collector, { limits: formLimits, throwFileSizeLimit: false }, () => {})
  return members
}
