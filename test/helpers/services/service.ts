/** Local servers that stand in for other services. They check method, path, headers and body strictly, and respond as documented. */
import { Ajv } from 'ajv'
import type { Test } from 'tap'
import type { Remote } from '../remote.js'
import { remote } from '../remote.js'

export interface Call {
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
  /** The parameters of the endpoint's path, decoded. */
  readonly params: Readonly<Record<string, string>>
}

export interface Reply {
  readonly status: number
  /** A value that is sent as JSON. */
  readonly json?: unknown
  readonly text?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Ends a request with this response instead. */
export class Refusal extends Error {
  readonly reply: Reply

  constructor (reply: Reply) {
    super(JSON.stringify(reply))
    this.reply = reply
  }
}

/** By method and path, with `:name` for a parameter: `GET /v1/customers/:id`. */
export type Endpoints = Readonly<Record<string, (call: Call) => Reply>>

/** Serves the endpoints. Other requests get 404. */
export async function service (t: Test, endpoints: Endpoints): Promise<Remote> {
  const routes = Object.entries(endpoints).map(([name, respond]) => {
    const [method = '', path = ''] = name.split(' ')
    return { method, segments: path.split('/'), respond }
  })
  return await remote(t, ({ method, path, headers, body }, response) => {
    const url = new URL(path, 'http://service')
    const reply = (): Reply => {
      const segments = url.pathname.split('/')
      for (const route of routes) {
        const params = route.method === method ? paramsOf(route.segments, segments) : null
        if (params !== null) return route.respond({ query: Object.fromEntries(url.searchParams), headers, body, params })
      }
      return { status: 404, json: { message: `no endpoint ${method} ${url.pathname}` } }
    }
    const { status, json, text = json === undefined ? '' : JSON.stringify(json), headers: further = {} } = answered(reply)
    response.writeHead(status, { ...json !== undefined && { 'content-type': 'application/json; charset=utf-8' }, ...further }).end(text)
  })
}

function answered (reply: () => Reply): Reply {
  try {
    return reply()
  } catch (error) {
    if (error instanceof Refusal) return error.reply
    throw error
  }
}

function paramsOf (declared: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (declared.length !== segments.length) return null
  const params: Record<string, string> = {}
  for (const [index, name] of declared.entries()) {
    const segment = segments[index] ?? ''
    if (name.startsWith(':')) {
      if (segment === '') return null
      params[name.slice(1)] = decodeURIComponent(segment)
    } else if (name !== segment) {
      return null
    }
  }
  return params
}

export function requireHeader ({ headers }: Call, name: string, value: string | RegExp, refusal: Reply): void {
  const given = headers[name]
  const fits = typeof given === 'string' && (typeof value === 'string' ? given === value : value.test(given))
  if (!fits) throw new Refusal(refusal)
}

/** The JSON Schema of an object with only these members. */
export function objectSchema (properties: object, required: readonly string[] = []) {
  return { type: 'object', properties, required, additionalProperties: false }
}

const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false })

/** The JSON body. Refuses a body that is not JSON or does not match the schema. */
export function jsonBody (call: Call, schema: object, refuse: (reason: string) => Reply): Record<string, unknown> {
  requireHeader(call, 'content-type', /^application\/json\b/, refuse('content-type'))
  const body: unknown = JSON.parse(call.body)
  const validate = ajv.compile<Record<string, unknown>>(schema)
  if (!validate(body)) throw new Refusal(refuse(ajv.errorsText(validate.errors)))
  return body
}

/** The fields of a form. Refuses unknown fields, and a form without a required field. */
export function formBody (
  call: Call,
  fields: Readonly<Record<string, 'required' | 'optional'>>,
  refuse: (reason: string) => Reply
): Record<string, string> {
  requireHeader(call, 'content-type', /^application\/x-www-form-urlencoded\b/, refuse('content-type'))
  const form = Object.fromEntries(new URLSearchParams(call.body))
  const known = (name: string) =>
    Object.keys(fields).some((field) => field === name || (field.endsWith('[]') && name.startsWith(field.slice(0, -1))))
  for (const name of Object.keys(form)) if (!known(name)) throw new Refusal(refuse(`unknown ${name}`))
  for (const [name, kind] of Object.entries(fields)) {
    if (kind === 'required' && (form[name] ?? '') === '') throw new Refusal(refuse(`missing ${name}`))
  }
  return form
}

/** Refuses unknown query parameters. */
export function requireQuery ({ query }: Call, names: readonly string[], refuse: (reason: string) => Reply): void {
  for (const name of Object.keys(query)) if (!names.includes(name)) throw new Refusal(refuse(`unknown ${name}`))
}
