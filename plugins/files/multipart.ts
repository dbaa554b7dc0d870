/**
 * Forms, read by @fastify/multipart. The plugin is not registered: Fastify refuses a second registration below that of an embedding app,
 * whose options, such as `attachFieldsToBody`, would apply here.
 */
import type { Multipart } from '@fastify/multipart'
import type { FastifyInstance } from 'fastify'
import { formLimits } from './buckets.js'

export interface Form {
  parts(options?: { readonly limits: Partial<typeof formLimits> }): AsyncIterableIterator<Multipart>
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
    forms.set(request, Object.assign(Object.create(members), { raw, log: silent, isMultipart: () => true }))
    done(null)
  })
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
