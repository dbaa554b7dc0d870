/** A response schema promises only members that responses have. */
import { type Test, test } from 'tap'
import { ConfigError } from '../../lib/configuration/index.js'
import type { TestDocument } from '../helpers/server.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller } from './caller.js'

type Route = NonNullable<TestDocument['routes']>[number]

const tables = {
  notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' }, meta: { type: 'jsonb' } } }
} as const satisfies TestDocument['tables']
const list: Omit<Route, 'path'> = { method: 'get', queries: [{ table: 'notes', operation: 'select' }] }
const properties = { id: { type: 'integer' }, title: { type: 'string' } } as const
const record = (required: string[]) => ({ type: 'object', properties, required })

async function faultsOf (t: Test, routes: Route[]): Promise<string[]> {
  const error = await testServer(t, { tables, routes }).then(() => null, (reason: unknown) => reason)
  return error instanceof ConfigError
    ? error.faults.map(({ pointer, message, suggestion }) => `${pointer} ${message}${suggestion === undefined ? '' : `; ${suggestion}`}`)
    : []
}

test('a response schema that requires a member that responses lack is a fault at load', async (t) => {
  t.strictSame(
    await faultsOf(t, [
      { ...list, path: '/a', response: record(['id', 'nope']) },
      { ...list, path: '/b', response: { type: 'array', items: record(['titel']) } },
      {
        ...list,
        path: '/c',
        response: { type: 'object', properties: { data: { type: 'array', items: record(['nope']) } }, required: ['data', 'total'] }
      },
      { method: 'post', path: '/d', queries: [{ table: 'notes', operation: 'insert' }], response: record(['nope']) },
      { ...list, path: '/e', response: record(['meta']) }
    ]),
    [
      '/routes/0/response/required/1 the response has no member "nope"',
      '/routes/1/response/items/required/0 the response has no member "titel"; title',
      '/routes/2/response/required/1 the response has no member "total"',
      '/routes/2/response/properties/data/items/required/0 the response has no member "nope"',
      '/routes/3/response/required/0 the response has no member "nope"',
      '/routes/4/response/required/0 "meta" is not among the `properties`, so the response omits it'
    ]
  )
})

test('a response schema may require columns, computed members, the envelope, and anything unknown', async (t) => {
  const app = await testServer(t, {
    tables,
    routes: [
      { ...list, path: '/a', response: record(['id', 'title']) },
      {
        ...list,
        path: '/b',
        transform: { fields: { twice: 'item.id * 2' } },
        response: { type: 'object', properties: { ...properties, twice: {} }, required: ['twice'] }
      },
      {
        ...list,
        path: '/c',
        response: {
          type: 'object',
          properties: {
            data: { type: 'array', items: record(['id']) },
            pagination: { type: 'object', properties: { total: {} }, required: ['total'] }
          },
          required: ['data', 'pagination']
        }
      },
      {
        ...list,
        path: '/d',
        response: {
          type: 'object',
          properties: { meta: { type: 'object', properties: { any: {} }, required: ['any'] } },
          required: ['meta']
        }
      },
      {
        method: 'get',
        path: '/e',
        firebaseQueries: [{ collection: 'docs', operation: 'query' }],
        response: { type: 'object', properties: { any: {} }, required: ['any'] }
      }
    ]
  }, { tenants: ['acme'] })
  const ask = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme' }) })
  for (const path of ['/a', '/b', '/c', '/d', '/e']) t.equal((await ask(`GET ${path}`)).status, 200, path)
  const saved = await ask('POST /tenant/config', { body: { routes: [{ ...list, path: '/own', response: record(['nope']) }] } })
  t.match(saved, { status: 400, body: { details: [{ path: '/routes/0/response/required/0' }] } }, "the same applies to a tenant's document")
})
