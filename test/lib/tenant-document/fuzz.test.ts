/** Any JSON from a tenant is accepted or rejected, without any other outcome. */
import t from 'tap'
import { ConfigError } from '../../../lib/configuration/index.js'
import { TenantryError } from '../../../lib/errors.js'
import { readTenantDocument } from '../../../lib/tenant-document/index.js'
import { seededRandom } from '../../helpers/random.js'
import { check } from './documents.js'

const runs = 3000

const names = [
  'routes',
  'settings',
  'credentials',
  'rateLimit',
  'cache',
  'webhooks',
  'path',
  'method',
  'queries',
  'firebaseQueries',
  'table',
  'collection',
  'operation',
  'filters',
  'column',
  'operator',
  'value',
  'or',
  'not',
  'data',
  'select',
  'id',
  'order',
  'limit',
  'response',
  'request',
  'body',
  'params',
  'type',
  'pattern',
  'properties',
  'transform',
  'fields',
  'enabled',
  'ttl',
  'key',
  'varyBy',
  'default',
  'perEndpoint',
  'max',
  'windowMs',
  'payment',
  'secretKey',
  'email',
  'apiKey',
  '__proto__',
  'constructor',
  'toString',
  'length',
  '',
  'a/b~c'
]
const texts = [
  '/notes',
  '/notes/:id',
  '/health',
  'get',
  'post',
  'delete',
  'notes',
  'select',
  'insert',
  'update',
  'title',
  'eq',
  'in',
  '*',
  'notes(*)',
  '{{body.a}}',
  '{{secret:k}}',
  '{{env.REGION}}',
  '{{env.X || 1}}',
  '$' + '{X}',
  '{{',
  '}}',
  '{{now()}}',
  '{{params.id}}',
  'object',
  'string',
  '^a+$',
  '(',
  'item.a + 1',
  'GET /notes',
  '\u0000',
  '\uD800',
  'x'.repeat(300)
]
const literals = [null, true, false, 0, -1, 1.5, 1e308, 42]

function documentOf (next: () => number): unknown {
  const pick = <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(next() * items.length)]
  const members = (depth: number) =>
    JSON.parse(
      `{${Array.from({ length: Math.floor(next() * 6) }, () => `${JSON.stringify(pick(names))}:${JSON.stringify(value(depth + 1)) ?? 'null'}`).join(',')}}`
    )
  const value = (depth: number): unknown => {
    const kind = next()
    if (depth > 6 || kind < 0.35) return pick(texts)
    if (kind < 0.45) return pick(literals)
    return kind < 0.65 ? Array.from({ length: Math.floor(next() * 4) }, () => value(depth + 1)) : members(depth)
  }
  const routeOf = () => ({
    path: pick(texts),
    method: pick(['get', 'post', 'put', 'delete', 'GET']),
    ...members(2),
    ...next() < 0.7 &&
      { queries: [{ table: 'notes', operation: pick(['select', 'insert', 'update', 'upsert', 'delete']), ...members(4) }] },
    ...next() < 0.3 && { response: value(2) },
    ...next() < 0.3 && { transform: { fields: { a: pick(texts) } } }
  })
  return next() < 0.2
    ? value(0)
    : { ...members(1), ...next() < 0.8 && { routes: Array.from({ length: 1 + Math.floor(next() * 3) }, routeOf) } }
}

t.test('checking a document ends only with success, faults or conflicts', async (t) => {
  let accepted = 0
  for (let seed = 1; seed <= runs; seed++) {
    const document = documentOf(seededRandom(seed))
    try {
      const result = await check(document)
      accepted++
      if (JSON.stringify(readTenantDocument(document)) !== JSON.stringify(result.document)) {
        t.strictSame(readTenantDocument(document), result.document, `seed ${seed}`)
      }
    } catch (error) {
      if (!(error instanceof ConfigError) && !(error instanceof TenantryError)) {
        t.error(error, `seed ${seed}: ${JSON.stringify(document).slice(0, 1000)}`)
      }
    }
  }
  t.ok(accepted > runs / 100, `${accepted} of ${runs} are accepted`)
})
