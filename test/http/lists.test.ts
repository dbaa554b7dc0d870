/** Every list of a built-in group: its pages, page sizes and parameters. */
import { type Test, test } from 'tap'
import { isRecord } from '../../lib/json/plain-value.js'
import { secretText } from '../helpers/log-scan.js'
import { boundary, form } from '../plugins/files/app.js'
import { addUser } from '../plugins/login/app.js'
import { type BuiltIn, openBuiltIn } from './built-in.js'
import { type Ask, refused } from './caller.js'

/** Endpoints whose array is not a list of entries: one document, one record, or all data of a provider or a period. */
const wholes: Readonly<Record<string, string>> = {
  '/usage/history': 'the days of one month',
  '/analytics/summary': 'the routes of one period',
  '/queue/stats': 'the jobs that are defined',
  '/agent/embeddings/batch/{id}': 'one batch',
  '/agent/conversations/{id}': 'one conversation',
  '/agent/workflow/status': 'one run',
  '/agent/mcp/tools': 'the lists of other servers',
  '/.well-known/oauth-protected-resource/mcp': 'one resource',
  '/tenant/limits/resources': 'the limits, which are replaced as a whole',
  '/tenant/limits/resources/usage': 'one user',
  '/billing/plans': 'the plans of the document',
  '/billing/tenant/products': 'pages of the payment provider, with a cursor',
  '/billing/tenant/customers': 'pages of the payment provider, with a cursor',
  '/billing/tenant/subscriptions': 'pages of the payment provider, with a cursor',
  '/billing/tenant/customers/{id}/state': 'one customer',
  '/tenant/rbac': 'the roles, which are replaced as a whole',
  '/rbac/roles/{id}': 'one role',
  '/rbac/users/{id}/permissions': 'the permissions of one user',
  '/auth/me': 'one user',
  '/mfa/backup-codes': 'ten new codes',
  '/migration': 'one migration'
}

const count = 5
const value = secretText('a value that no list reveals')

interface List {
  readonly ask: Ask
  /** The requested path; default: its own path. */
  readonly at?: string
  /** Creates the entry with this index. */
  readonly add: (index: number) => Promise<unknown>
}

function listsOf (t: Test, { app, acme, platform, stranger }: BuiltIn): Readonly<Record<string, List>> {
  const made = (ask: Ask, target: string, body: (index: number) => object) => async (index: number) => {
    const { status, text } = await ask(target, { body: body(index) })
    if (status >= 300) t.fail(`${target}: ${status} ${text}`)
  }
  const note = made(acme, 'POST /notes', (id) => ({ id }))
  const secret = made(acme, 'POST /tenant/secrets', (index) => ({ key: `k${index}`, value }))
  const none = async () => {}
  const upload = async () => {
    const raw = form([{ name: 'file', value: 'text', filename: 'a.txt', type: 'text/plain' }, { name: 'entityType', value: 'notes' }, {
      name: 'entityId',
      value: '7'
    }])
    t.equal((await acme('POST /files/upload', { raw, type: `multipart/form-data; boundary=${boundary}` })).status, 201)
  }
  const assigned = async (index: number) => {
    const { body: { id: roleId } } = await platform('POST /rbac/roles', { body: { name: `role${index}` } })
    await platform('POST /rbac/assign', { body: { userId: 'ada', roleId } })
  }
  return {
    '/admin/entities/{table}': { ask: acme, at: '/admin/entities/notes', add: note },
    '/webhooks/deliveries': { ask: platform, add: none },
    '/audit': { ask: acme, add: none },
    '/tenant/secrets': { ask: acme, add: secret },
    '/tenant/secrets/audit': { ask: acme, add: none },
    '/tenant/api-keys': { ask: acme, add: made(acme, 'POST /tenant/api-keys', (index) => ({ name: `k${index}` })) },
    '/tenant/config/versions': { ask: acme, add: made(acme, 'POST /tenant/config', (index) => ({ settings: { index } })) },
    '/tenant/rbac/roles': { ask: acme, add: made(acme, 'POST /tenant/rbac/roles', (index) => ({ name: `role${index}`, permissions: [] })) },
    '/rbac/users/{id}/roles': { ask: platform, at: '/rbac/users/ada/roles', add: assigned },
    '/rbac/roles': { ask: platform, add: none },
    '/rbac/permissions': { ask: platform, add: made(platform, 'POST /rbac/permissions', (index) => ({ name: `notes${index}:read` })) },
    '/tenants': { ask: platform, add: made(platform, 'POST /tenants', (index) => ({ id: `t${index}`, name: `T ${index}` })) },
    '/users': { ask: acme, add: (index) => addUser(app, 'acme', `u${index}@example.com`) },
    '/queue/jobs': {
      ask: platform,
      at: '/queue/jobs?name=later',
      add: made(platform, 'POST /queue/jobs', () => ({ name: 'later', options: { delay: 3600 } }))
    },
    '/cache/keys': { ask: platform, add: (index) => stranger(`GET /cached?a=${index}`) },
    '/llm/models': { ask: acme, add: none },
    '/agent/embeddings/documents': {
      ask: acme,
      add: made(
        acme,
        'POST /agent/embeddings/document',
        (index) => ({ contentType: 'text/plain', document: 'A blue valve.', id: `d${index}` })
      )
    },
    '/agent/conversations': { ask: acme, add: made(acme, 'POST /agent/chat', () => ({ message: 'Hi' })) },
    '/agent/mcp/servers': { ask: acme, add: none },
    '/agent/workflows': { ask: acme, add: none },
    '/agent/workflow/runs': { ask: acme, add: made(acme, 'POST /agent/workflow/run', () => ({ ref: 'a' })) },
    '/files/entity/{entityType}/{entityId}': { ask: acme, at: '/files/entity/notes/7', add: upload }
  }
}

/** The member that identifies an entry; other members of a delivery change during retries. */
function nameOf (entry: unknown): unknown {
  if (!isRecord(entry)) return entry
  return entry['id'] ?? entry['key'] ?? entry['workflowId'] ?? entry['version'] ?? entry['name'] ?? entry
}

test("every built-in list accepts `limit` and `offset`, with the document's page sizes, and returns the total", async (t) => {
  const world = await openBuiltIn(t, { pagination: { defaultLimit: 2, maxLimit: 3, defaultOffset: 1 } })
  const lists = listsOf(t, world)
  const found = world.operations.filter(({ method, response }) => method === 'GET' && hasList(response))
  t.strictSame(found.map(({ path }) => path).filter((path) => wholes[path] === undefined).sort(), Object.keys(lists).sort(), 'all lists are tested')
  for (const { add } of Object.values(lists)) for (let index = 0; index < count; index++) await add(index)

  for (const { path, parameters, response } of found) {
    const list = lists[path]
    if (list === undefined) continue
    t.ok(parameters.includes('limit') && parameters.includes('offset'), `/doc has the parameters of ${path}`)
    t.strictSame(
      Object.keys(Object(response).properties).sort(),
      [path === '/tenant/secrets' ? 'secrets' : 'data', 'pagination'].sort(),
      `and its members ${path}`
    )
    const at = list.at ?? path
    const ask = (query: string) => list.ask(`GET ${at}${at.includes('?') ? '&' : '?'}${query}`)
    const page = async (query: string) => {
      const { status, body } = await ask(query)
      t.equal(status, 200, `${path} ${query}`)
      return { items: [body['secrets'] ?? body['data']].flat().map(nameOf), pagination: body['pagination'] }
    }
    const all = await page('limit=3&offset=0')
    const { total } = Object(all.pagination)
    t.ok(total >= count, `${path} returns a total of ${String(total)}`)
    t.equal(new Set(all.items).size, 3, `${path} has entries`)
    t.strictSame(
      await page(''),
      { items: all.items.slice(1, 3), pagination: { limit: 2, offset: 1, total } },
      `the default page of ${path}`
    )
    t.match(await page('limit=5000'), { items: { length: 3 }, pagination: { limit: 3, offset: 1, total } }, `the largest page of ${path}`)
    t.strictSame((await page('limit=1&offset=2')).items, all.items.slice(2, 3), `a later page of ${path}`)
    t.strictSame((await page(`offset=${Number(total)}`)).items, [], `a page after the end of ${path}`)
    for (
      const query of [
        'limit=0',
        'limit=-1',
        'limit=1.5',
        'limit=x',
        'limit=',
        'limit=1&limit=2',
        'offset=-1',
        'offset=x',
        'offset=1e400',
        'page=2',
        'Limit=1'
      ]
    ) refused(t, await ask(query), 400, 'VALIDATION_FAILED', `${path} ${query}`)
  }
})

/** The response is an array, or contains one. */
function hasList (schema: unknown): boolean {
  if (!isRecord(schema)) return false
  const { type, properties } = schema
  return type === 'array' ||
    (isRecord(properties) && Object.values(properties).some((member) => isRecord(member) && member['type'] === 'array'))
}
