/** A server with files on the test's own disk, and callers that upload forms. */
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { Test } from 'tap'
import type { Plans } from '../../../lib/schema/plans.js'
import { listen, type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { bearer, type TokenClaims } from '../../helpers/tokens.js'
import { checked, parsed, type Reply } from '../../http/caller.js'

export const MB = 1_048_576

/** `seven` has room for 7 MB; files of the plans `small` and `seven` have at most 1 MB. */
export const plans: Plans = {
  small: { price: { monthly: 1 }, limits: { fileStorage: { maxStorageMB: 3, maxFileSizeMB: 1 } } },
  seven: { price: { monthly: 2 }, limits: { fileStorage: { maxStorageMB: 7, maxFileSizeMB: 1 } } },
  large: { price: { monthly: 3 }, limits: { fileStorage: { maxStorageMB: -1, maxFileSizeMB: -1 } } }
}

export interface Part {
  readonly name: string
  readonly value: string | Buffer
  readonly filename?: string
  readonly type?: string
}

export interface Opened {
  readonly app: FastifyInstance
  readonly origin: string
  readonly folder: string
  /** A user of the tenant. */
  readonly as: (tenant: string, claims?: TokenClaims) => User
}

export interface User {
  readonly origin: string
  readonly headers: Record<string, string>
  readonly upload: (parts: readonly Part[], headers?: Record<string, string>) => Promise<Reply>
  readonly ask: (
    target: string,
    options?: { readonly headers?: Record<string, string>, readonly body?: string | Buffer }
  ) => Promise<Reply & { readonly bytes: Buffer }>
}

export async function open (t: Test, document: TestDocument = {}, options: TestServerOptions = {}): Promise<Opened> {
  const folder = t.testdir()
  const app = await testServer(t, { plans, ...document, files: { path: folder, ...document.files } }, {
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }, { id: 'seven', plan: 'seven' }],
    ...options
  })
  const origin = await listen(app)
  return {
    app,
    origin,
    folder,
    as: (tenant, claims = {}) => userOf(t, origin, bearer({ sub: 'ada', role: 'user', tenant_id: tenant, ...claims }))
  }
}

export function userOf (t: Test, origin: string, own: Record<string, string>): User {
  const ask: User['ask'] = async (target, { headers = {}, body } = {}) => {
    const [method = '', url = ''] = target.split(' ')
    const response = await fetch(origin + url, {
      method,
      headers: { ...own, ...headers },
      ...body !== undefined && { body: typeof body === 'string' ? body : new Uint8Array(body) }
    })
    const bytes = Buffer.from(await response.arrayBuffer())
    const text = bytes.toString()
    return {
      ...checked(t, target, { status: response.status, headers: Object.fromEntries(response.headers), text, body: parsed(text) }),
      bytes
    }
  }
  return {
    origin,
    headers: own,
    ask,
    upload: (parts, headers = {}) =>
      ask('POST /files/upload', { headers: { 'content-type': `multipart/form-data; boundary=${boundary}`, ...headers }, body: form(parts) })
  }
}

export const boundary = 'the-boundary-of-the-tests'
export const formHeaders = { 'content-type': `multipart/form-data; boundary=${boundary}` }

export function form (parts: readonly Part[]): Buffer {
  const lines = parts.flatMap(({ name, value, filename, type }) => [
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n${
      type === undefined ? '' : `content-type: ${type}\r\n`
    }\r\n`,
    value,
    '\r\n'
  ])
  return Buffer.concat([...lines, `--${boundary}--\r\n`].map((line) => Buffer.from(line)))
}

export function file (value: string | Buffer, filename = 'a.txt', type = 'text/plain'): Part {
  return { name: 'file', value, filename, type }
}

/** Sends the first half of the body. Returns a function that sends the rest and resolves with the status. */
export async function half (
  { origin, headers }: User,
  method: string,
  path: string,
  body: Buffer,
  own: Record<string, string> = {}
): Promise<() => Promise<number>> {
  const sending = request(origin + path, { method, headers: { ...headers, ...own, 'content-length': body.length } })
  const response = once(sending, 'response')
  // After the response to a refused body, the server may end the connection.
  sending.on('error', () => {})
  const middle = body.length / 2
  await new Promise((resolve) => {
    sending.write(body.subarray(0, middle), resolve)
  })
  return async () => {
    sending.end(body.subarray(middle))
    const [received] = await response
    received.resume()
    return received.statusCode
  }
}

/** The objects on the disk, and the partial files of running uploads. */
export async function onDisk (folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort()
}

/** The rows of all tenants, by state. */
export async function rows (app: FastifyInstance): Promise<Record<string, number>> {
  const { rows } = await sql<
    { status: string, count: number }
  >`select status, count(*)::integer as count from tenantry.files group by status`.execute(app.db)
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

/** The ledger's booked and reserved storage. */
export async function storage (app: FastifyInstance, tenant: string): Promise<{ booked: number, reserved: number, shown: number }> {
  const { rows: [row] } = await sql<{ booked: number, reserved: number }>`select
    coalesce((select sum(amount) from tenantry.usage_counters where tenant_id = ${tenant} and counter = 'storage_bytes'), 0)::float8 as booked,
    coalesce((select sum(amount) from tenantry.usage_reservations where tenant_id = ${tenant} and booked is null), 0)::float8 as reserved`
    .execute(app.db)
  return { booked: row?.booked ?? 0, reserved: row?.reserved ?? 0, shown: (await app.usage.summary(tenant)).storage_bytes }
}
