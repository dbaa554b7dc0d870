/** Built-in endpoints that create: `Idempotency-Key` and `Location`. */
import { test } from 'tap'
import { secretText } from '../helpers/log-scan.js'
import { type BuiltIn, openBuiltIn } from './built-in.js'
import { type Ask, refused, type Reply } from './caller.js'

/** POST endpoints that return 201 without storing the response, and why repeating them is safe. */
const withoutKey: Readonly<Record<string, string>> = {
  'POST /auth/register': 'an address registers once',
  'POST /auth/invite/accept': 'a link works once',
  'POST /files/upload': 'the body is not kept: /files/presign and resumable uploads repeat safely',
  'POST /files/resumable': 'unfinished uploads are removed'
}

/** Tested with a payment provider: test/plugins/billing and test/plugins/tenant-billing. */
const billing = ['POST /billing/upgrade', 'POST /billing/tenant/products', 'POST /billing/tenant/checkout']

/** Endpoints whose created record has a GET endpoint. */
const withLocation = ['POST /tenants', 'POST /rbac/roles', 'POST /queue/jobs', 'POST /files/upload']

const value = secretText('a value that no response contains')

interface Creating {
  readonly ask: Ask
  /** The path, if it has parameters. */
  readonly at?: string
  readonly tenant?: string
  readonly body: object
  readonly other: object
}

async function creating ({ acme, platform }: BuiltIn): Promise<Readonly<Record<string, Creating>>> {
  const { body: { id: keyId } } = await acme('POST /tenant/api-keys', { body: { name: 'first' } })
  for (const key of ['one', 'two']) await acme('POST /tenant/secrets', { body: { key, value } })
  await acme('PUT /tenant/limits/resources', { body: [{ resource: 'llm', metric: 'tokens', period: 'day', limit: 100_000 }] })
  const { body: { id: roleId } } = await platform('POST /rbac/roles', { body: { name: 'first' } })
  const document = { contentType: 'text/plain', document: 'A blue valve.' }
  const used = { userId: 'uma', resource: 'llm', metric: 'tokens' }
  const steps = [{ id: 'a', type: 'database', operation: 'select', table: 'notes' }]
  const file = { contentType: 'text/plain', size: 3 }
  return {
    'POST /tenants': { ask: platform, body: { id: 'initech', name: 'Initech' }, other: { id: 'hooli', name: 'Hooli' } },
    'POST /tenant/api-keys': { ask: acme, body: { name: 'a' }, other: { name: 'b' } },
    'POST /tenant/api-keys/{id}/rotate': {
      ask: acme,
      at: `/tenant/api-keys/${String(keyId)}/rotate`,
      body: { gracePeriodDays: 1 },
      other: { gracePeriodDays: 2 }
    },
    'POST /tenant/secrets': { ask: acme, body: { key: 'three', value }, other: { key: 'four', value } },
    'POST /tenant/secrets/{key}/rotate': {
      ask: acme,
      at: '/tenant/secrets/one/rotate',
      body: { newValue: `${value} 2` },
      other: { newValue: `${value} 3` }
    },
    'POST /tenant/secrets/rotate': {
      ask: acme,
      body: { key: 'two', newValue: `${value} 2` },
      other: { key: 'two', newValue: `${value} 3` }
    },
    'POST /tenant/rbac/roles': { ask: acme, body: { name: 'a', permissions: [] }, other: { name: 'b', permissions: [] } },
    'POST /tenant/limits/resources/track': { ask: acme, body: used, other: { ...used, amount: 2 } },
    'POST /rbac/roles': { ask: platform, body: { name: 'a' }, other: { name: 'b' } },
    'POST /rbac/permissions': { ask: platform, body: { name: 'notes:read' }, other: { name: 'notes:write' } },
    'POST /rbac/assign': { ask: platform, body: { userId: 'ada', roleId }, other: { userId: 'bob', roleId } },
    'POST /queue/jobs': {
      ask: platform,
      body: { name: 'later', options: { delay: 60 } },
      other: { name: 'later', options: { delay: 90 } }
    },
    'POST /publish/entity': {
      ask: platform,
      tenant: 'acme',
      body: { table: 'notes', data: { id: 1 } },
      other: { table: 'notes', data: { id: 2 } }
    },
    'POST /users/invite': { ask: acme, body: { email: 'a@example.com' }, other: { email: 'b@example.com' } },
    'POST /files/presign': { ask: acme, body: { ...file, name: 'a.txt' }, other: { ...file, name: 'b.txt' } },
    'POST /agent/workflow': { ask: acme, body: { id: 'a', steps }, other: { id: 'b', steps } },
    'POST /agent/workflow/run': { ask: acme, body: { ref: 'a' }, other: { ref: 'b' } },
    'POST /agent/chat': { ask: acme, body: { message: 'hello' }, other: { message: 'another' } },
    'POST /agent/embeddings/document': { ask: acme, body: document, other: { ...document, document: 'A red pump.' } },
    'POST /agent/embeddings/batch': { ask: acme, body: { documents: [document] }, other: { documents: [document, document] } }
  }
}

test('every built-in endpoint that creates a record does so once per idempotency key, and returns its Location', async (t) => {
  const world = await openBuiltIn(t)
  const posts = world.operations.filter(({ method }) => method === 'POST')
  const takers = posts.filter(({ takesKey }) => takesKey).map(({ target }) => target)
  const creators = posts.filter(({ statuses }) => statuses.includes('201')).map(({ target }) => target)
  t.strictSame(
    creators.filter((target) => !takers.includes(target)).sort(),
    Object.keys(withoutKey).sort(),
    'every creating POST accepts a key'
  )
  const endpoints = await creating(world)
  t.strictSame(takers.filter((target) => !billing.includes(target)).sort(), Object.keys(endpoints).sort(), 'all of them are tested')

  for (const [target, { ask, at, tenant, body, other }] of Object.entries(endpoints)) {
    const send = (sent: object): Promise<Reply> =>
      ask(at === undefined ? target : `POST ${at}`, {
        body: sent,
        headers: { 'idempotency-key': 'k', ...tenant !== undefined && { 'x-tenant-id': tenant } }
      })
    const first = await send(body)
    t.ok(first.status < 300, `${target}: ${first.status}`, first.status < 300 ? {} : { text: first.text })
    t.equal(first.headers['idempotency-replayed'], undefined, target)
    const again = await send(body)
    t.equal(again.headers['idempotency-replayed'], 'true', `${target}: the replay is marked`)
    t.strictSame([again.status, again.text, again.headers['location']], [first.status, first.text, first.headers['location']], target)
    refused(t, await send(other), 409, 'IDEMPOTENCY_MISMATCH', target)
    const { location } = first.headers
    t.equal(location !== undefined, withLocation.includes(target), `${target}: Location ${String(location)}`)
    if (location !== undefined) t.match(await ask(`GET ${String(location)}`), { status: 200 }, `${target}: the record exists`)
  }
})
