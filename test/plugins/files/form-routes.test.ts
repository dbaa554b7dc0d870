/** Routes whose body is a form with files. */
import { connect } from 'node:net'
import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import { turns } from '../../../lib/concurrency/event-loop-yielder.js'
import type { Query } from '../../../lib/schema/query.js'
import type { RequestRules, Route } from '../../../lib/schema/route.js'
import { waitingDeletions } from '../../helpers/locks.js'
import { holdInPause } from '../../helpers/pauses.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import type { TokenClaims } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { boundary, form, formHeaders, half, MB, onDisk, open, type Opened, type Part, rows, storage, type User, userOf } from './app.js'

const png = Buffer.from('89504e470d0a1a0a0000000d4948445200000001000000010806000000', 'hex')
const avatar = (value: string | Buffer = png, filename = 'a.png'): Part => ({ name: 'avatar', value, filename, type: 'image/png' })
const title = (value = 'Ada'): Part => ({ name: 'title', value })

const tables = {
  people: {
    tenantScoped: true,
    columns: {
      id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
      title: { type: 'text', notNull: true },
      age: { type: 'integer' },
      active: { type: 'boolean' },
      tags: { type: 'text[]' },
      avatar: { type: 'uuid' }
    },
    unique: [['title']]
  }
} satisfies TestDocument['tables']

const insert: Query = {
  table: 'people',
  operation: 'insert',
  data: { title: '{{body.title}}', age: '{{body.age}}', active: '{{body.active}}', tags: '{{body.tags}}', avatar: '{{files.avatar.id}}' }
}
const body: RequestRules['body'] = {
  title: { type: 'string', required: true, maxLength: 20 },
  age: { type: 'integer', minimum: 0 },
  active: { type: 'boolean' },
  tags: { type: 'array', items: { type: 'string' } }
}

const people: Route = {
  path: '/people',
  method: 'post',
  requireAuth: true,
  multipart: true,
  request: {
    body,
    query: { mode: { type: 'string', enum: ['a', 'b'] } },
    files: { avatar: { required: true, types: ['image/*'], maxSizeMB: 0.5 }, cv: { bucket: 'papers' } }
  },
  queries: [insert]
}

const document: TestDocument = {
  tables,
  files: { buckets: { papers: { maxFileSizeMB: 0.001 }, pay: { permissions: ['pay:write'] } } },
  routes: [people]
}

function sender (user: User) {
  return (path: string, parts: readonly Part[], headers: Record<string, string> = {}) =>
    user.ask(`POST ${path}`, { headers: { 'content-type': `multipart/form-data; boundary=${boundary}`, ...headers }, body: form(parts) })
}

async function nothingLeft ({ app, folder }: Opened, tenant = 'acme'): Promise<void> {
  await until(
    'no file and no storage remains',
    async () =>
      JSON.stringify([await onDisk(folder), await rows(app), await storage(app, tenant)]) === '[[],{},{"booked":0,"reserved":0,"shown":0}]'
  )
}

test('a form creates a row and a file, and its texts are converted to the declared types', async (t) => {
  const { app, as } = await open(t, document)
  const ada = as('acme')
  const send = sender(ada)
  const { status, body: person, headers } = await send('/people?mode=a', [
    title(),
    avatar(),
    { name: 'age', value: '36' },
    { name: 'active', value: 'true' },
    { name: 'tags', value: 'a, b' },
    { name: 'tags', value: 'c' }
  ])
  t.equal(status, 201)
  t.match(person, { title: 'Ada', age: 36, active: true, tags: ['a, b', 'c'], avatar: String })
  t.match(headers['content-type'], /^application\/json/)
  const file = await ada.ask(`GET /files/${String(person['avatar'])}`)
  t.match(file.body, { name: 'a.png', contentType: 'image/png', size: png.length, bucket: 'private', createdBy: 'ada', public: false })
  t.same((await ada.ask(`GET ${String(file.body['url'])}`)).bytes, png)
  t.equal((await as('globex').ask(`GET /files/${String(person['avatar'])}`)).status, 404)
  t.same(await storage(app, 'acme'), { booked: png.length, reserved: 0, shown: png.length })
  t.same(
    (await send('/people', [title('Bo'), avatar(), { name: 'tags', value: 'only' }])).body['tags'],
    ['only'],
    'a single text becomes a list'
  )
})

test('an address without a token has ten uploads at a time, and others of the tenant have theirs', async (t) => {
  const opened = await open(t, {
    server: { trustProxy: true },
    routes: [{ path: '/inbox', method: 'post', multipart: true, response: { id: '{{files.file.id}}' } }]
  })
  const from = (address: string) => userOf(t, opened.origin, { 'x-tenant-id': 'acme', 'x-forwarded-for': address })
  const stranger = from('192.0.2.1')
  const slow = form([{ ...avatar(Buffer.alloc(MB)), name: 'file' }])
  const rests = await Promise.all(Array.from({ length: 10 }, () => half(stranger, 'POST', '/inbox', slow, formHeaders)))
  await until('ten are running', async () => (await rows(opened.app))['pending'] === 10)
  const small = [{ ...avatar(), name: 'file' }]
  refused(t, await sender(stranger)('/inbox', small), 429, 'UPLOADS_BUSY')
  t.equal((await sender(from('192.0.2.2'))('/inbox', small)).status, 200, 'another address')
  t.equal((await sender(opened.as('acme'))('/inbox', small)).status, 200, 'a caller with a token')
  t.same(await Promise.all(rests.map((rest) => rest())), Array(10).fill(200))
  t.equal((await sender(stranger)('/inbox', small)).status, 200)
})

test('a form without declared files takes one in the part `file`', async (t) => {
  const { as } = await open(t, {
    routes: [{ path: '/inbox', method: 'post', requireAuth: true, multipart: true, response: { id: '{{files.file.id}}', size: '{{files.file.size}}' } }]
  })
  const send = sender(as('acme'))
  t.match(await send('/inbox', [{ ...avatar(), name: 'file' }]), { status: 200, body: { id: String, size: png.length } })
  t.match(await send('/inbox', []), { status: 200, body: { id: undefined } }, 'it is optional')
  refused(t, await send('/inbox', [avatar()]), 400, 'VALIDATION_FAILED', 'another part')
  refused(t, await send('/inbox', [{ ...avatar(), name: 'file' }, { ...avatar(), name: 'file' }]), 400, 'VALIDATION_FAILED', 'a second file')
})

test("a form that does not match the route's declaration is rejected, and leaves nothing", async (t) => {
  const opened = await open(t, document)
  const send = sender(opened.as('acme'))
  const detail = async (parts: readonly Part[], path = '/people', headers = {}) => {
    const { status, body } = await send(path, parts, headers)
    return [status, body.details?.[0]?.path ?? body['message']]
  }
  t.same(await detail([title()]), [400, '/files/avatar'])
  t.same(await detail([title(), avatar('', '')]), [400, '/files/avatar'], "a browser's file field without a file")
  t.same(await detail([title(), avatar('x', '')]), [400, '/files/avatar'])
  t.same(await detail([title(), { name: 'avatar', value: 'x' }]), [400, '/files/avatar'], 'text in place of a file')
  t.same(await detail([title(), avatar(), avatar()]), [400, '/files/avatar'])
  t.same(await detail([title(), avatar(), { name: 'photo', value: 'x', filename: 'p' }]), [400, '/files/photo'])
  t.same(await detail([avatar()]), [400, '/body/title'])
  t.same(await detail([avatar(), title('n'.repeat(21))]), [400, '/body/title'])
  t.same(await detail([avatar(), title(), title('Bo')]), [400, '/body/title'], 'a repeated text is invalid')
  t.same(await detail([avatar(), title(), { name: 'age', value: 'old' }]), [400, '/body/age'])
  t.same(await detail([avatar(), title(), { name: 'age', value: '-1' }]), [400, '/body/age'])
  t.same(await detail([avatar(), title(), { name: 'other', value: 'x' }]), [400, '/body/other'])
  t.same(await detail([avatar(), title(), { name: 'tags', value: '["a"]', type: 'application/json' }]), [400, '/body/tags'])
  t.same(await detail([avatar(), { name: 'title', value: 't'.repeat(70_000) }]), [400, '/body/title'])
  t.same(await detail([title(), avatar()], '/people?mode=c'), [400, '/query/mode'])
  t.match(await detail([title(), avatar(), { name: '__proto__', value: 'x' }]), [400, /cannot be read/])
  t.match(await detail([title(), ...Array.from({ length: 101 }, (_, index) => ({ name: `f${index}`, value: '' }))]), [
    400,
    /too many parts: expected the files avatar, cv/
  ])
  t.match(await detail([title(), avatar('<p>no image</p>')]), [415, /The part "avatar" does not accept files of the type/])
  t.match(await detail([title(), avatar()], '/people', { 'content-type': 'multipart/form-data' }), [400, /boundary/])
  t.match(await detail([title(), avatar()], '/people', { 'content-type': 'multipart/form-data; boundary=other' }), [400, /cannot be read/])
  refused(t, await send('/people', [], { 'content-type': 'application/json' }), 400, 'BAD_REQUEST')
  refused(
    t,
    await opened.as('acme').ask('POST /people', { headers: { 'content-type': 'application/json' }, body: '{"title":"Ada"}' }),
    415,
    'MEDIA_TYPE_UNSUPPORTED'
  )
  refused(t, await opened.as('acme').ask('POST /people'), 415, 'MEDIA_TYPE_UNSUPPORTED')
  refused(
    t,
    await opened.as('acme', { tenant_id: undefined }).ask('POST /people', {
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: form([title(), avatar()])
    }),
    400,
    'TENANT_REQUIRED'
  )
  await nothingLeft(opened)
})

test('the smallest limit of route, bucket and plan applies to a part', async (t) => {
  const { queries: _queries, ...wide } = {
    ...people,
    path: '/wide',
    request: { files: { avatar: { maxSizeMB: 10 } } },
    response: { id: '{{files.avatar.id}}' }
  }
  const opened = await open(t, { ...document, routes: [people, wide] }, {
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'small', plan: 'small' }]
  })
  const message = async (parts: readonly Part[], tenant = 'acme') => {
    const { status, body } = await sender(opened.as(tenant))('/people', parts)
    return [status, body['code'], body['message']]
  }
  const large = Buffer.concat([png, Buffer.alloc(MB / 2)])
  t.same(await message([title(), avatar(large)]), [
    413,
    'TENANTRY_FILE_TOO_LARGE',
    'The file is larger than 524288 bytes, the limit of the part "avatar"'
  ])
  t.same(await message([avatar(), title(), { name: 'cv', value: Buffer.alloc(2000), filename: 'cv' }]), [
    413,
    'TENANTRY_FILE_TOO_LARGE',
    'The file is larger than 1048 bytes, the limit of the bucket "papers"'
  ])
  await nothingLeft(opened)
  const small = sender(opened.as('small'))
  const refusal = await small('/wide', [avatar(Buffer.alloc(MB + 1))])
  t.match([refusal.status, refusal.body], [413, {
    code: 'TENANTRY_FILE_TOO_LARGE',
    message: 'The plan "small" includes files of up to 1 MB',
    allowed: false,
    upgrade: { plan: 'large' }
  }])
  await nothingLeft(opened, 'small')
  for (let count = 0; count < 3; count++) t.equal((await small('/wide', [avatar(Buffer.alloc(MB))])).status, 200)
  t.match(
    await small('/wide', [avatar(Buffer.alloc(1))]),
    { status: 402, body: { code: 'TENANTRY_PLAN_LIMIT', allowed: false } },
    'the storage is full'
  )
  t.same(await storage(opened.app, 'small'), { booked: 3 * MB, reserved: 0, shown: 3 * MB })
})

test('files of a failed route are removed, and those of a repeated request are not kept', async (t) => {
  const failing = (path: string, more: Partial<Route>): Route => ({
    path,
    method: 'post',
    requireAuth: true,
    multipart: true,
    request: { files: { avatar: {} } },
    ...more
  })
  const opened = await open(t, {
    ...document,
    workflows: [{ id: 'failing', steps: [{ id: 'a', type: 'database', operation: 'insert', table: 'people', data: { title: 'Ada' } }] }],
    customIntegrations: [{ name: 'down', baseUrl: 'http://127.0.0.1:1', actions: { call: { method: 'POST', path: '/' } } }],
    routes: [
      people,
      failing('/calls', { integrations: [{ type: 'down', action: 'call' }] }),
      failing('/several', { queries: [{ ...insert, data: { title: 'New' } }, { ...insert, alias: 'b', data: { title: 'Ada' } }] }),
      failing('/runs', { workflow: { ref: 'failing' } }),
      failing('/mapped', { response: { id: '{{files.avatar.id}}', size: '{{files.avatar.size}}', name: '{{body.name}}' } })
    ]
  })
  const { app, folder } = opened
  const send = sender(opened.as('acme'))
  const first = await send('/people', [title(), avatar()], { 'idempotency-key': 'one' })
  t.equal(first.status, 201)
  const kept = [{ booked: png.length, reserved: 0, shown: png.length }, { ready: 1 }, 1]
  const left = async () => [await storage(app, 'acme'), await rows(app), (await onDisk(folder)).length]
  t.same(await left(), kept)
  refused(t, await send('/people', [title(), avatar()]), 409, 'CONFLICT', 'a unique violation')
  refused(t, await send('/several', [avatar()]), 409, 'CONFLICT', 'the second query')
  refused(t, await send('/runs', [avatar()]), 409, 'CONFLICT', 'a step')
  t.equal((await send('/calls', [avatar()])).status, 502)
  t.same(await left(), kept, 'nothing of them remains')
  const again = await send('/people', [title(), avatar()], { 'idempotency-key': 'one' })
  t.same([again.status, again.body], [201, first.body])
  refused(
    t,
    await send('/people', [title(), avatar(Buffer.concat([png, png]))], { 'idempotency-key': 'one' }),
    409,
    'IDEMPOTENCY_MISMATCH',
    'another file'
  )
  t.same(await left(), kept)
  const mapped = await send('/mapped', [avatar(), { name: 'name', value: 'x' }])
  t.match([mapped.status, mapped.body], [200, { id: String, size: png.length, name: 'x' }])
  t.match((await send('/mapped', [])).body, { id: undefined }, 'an optional file')
})

test('permissions and validation come before the body, and a bucket has its own permissions', async (t) => {
  const { queries: _queries, ...paying } = {
    ...people,
    path: '/pay',
    request: { files: { avatar: { bucket: 'pay' } } },
    response: { id: '{{files.avatar.id}}' }
  }
  const opened = await open(t, { ...document, routes: [{ ...people, requiredPermissions: ['people:write'] }, paying] })
  const stuck = async (claims: TokenClaims, path = '/people') => {
    const user = opened.as('acme', claims)
    const { port } = new URL(opened.origin)
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    t.teardown(() => {
      socket.destroy()
    })
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: ${
        user.headers['authorization']
      }\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\ncontent-length: 1000000\r\n\r\n`
    )
    return await new Promise<string>((resolve) => {
      socket.once('data', (data) => resolve(data.toString().slice(9, 12)))
    })
  }
  t.equal(await stuck({}), '403', 'no byte of the body was sent')
  t.equal(await stuck({ permissions: ['people:write'] }, '/people?mode=c'), '400')
  refused(t, await sender(opened.as('acme'))('/pay', [avatar()]), 403, 'FORBIDDEN')
  t.equal((await sender(opened.as('acme', { permissions: ['pay:write'] }))('/pay', [avatar()])).status, 200)
})

test('of a hundred parallel forms with storage for seven, seven succeed', async (t) => {
  const opened = await open(t, { ...document, routes: [{ ...people, request: { body, files: { avatar: { required: true } } } }] })
  const send = sender(opened.as('seven'))
  const responses = await Promise.all(
    Array.from({ length: 100 }, (_, index) => send('/people', [title(`p${index}`), avatar(Buffer.alloc(MB))]))
  )
  t.same(responses.map(({ status }) => status).sort(), [...Array<number>(7).fill(201), ...Array<number>(93).fill(402)])
  t.match(responses.find(({ status }) => status === 402)?.body, { code: 'TENANTRY_PLAN_LIMIT', allowed: false, upgrade: { plan: 'large' } })
  t.same(await storage(opened.app, 'seven'), { booked: 7 * MB, reserved: 0, shown: 7 * MB })
  t.equal((await onDisk(opened.folder)).length, 7)
})

test('a form whose sender disconnects leaves nothing', async (t) => {
  const opened = await open(t, document)
  const whole = form([title(), avatar(Buffer.concat([png, Buffer.alloc(100_000)])), { name: 'age', value: '1' }])
  for (const part of [0.01, 0.5, 0.999]) {
    const leaving = new AbortController()
    const half = new ReadableStream({
      pull (controller) {
        controller.enqueue(new Uint8Array(whole.subarray(0, whole.length * part)))
        leaving.abort()
      }
    })
    const headers = { ...opened.as('acme').headers, 'content-type': `multipart/form-data; boundary=${boundary}` }
    await fetch(`${opened.origin}/people`, { method: 'POST', headers, body: half, duplex: 'half', signal: leaving.signal }).catch(() => {})
  }
  await nothingLeft(opened)
})

test("the fields of a form are tested with a tenant's patterns in turns of the tenant", async (t) => {
  const opened = await open(t, { ...document, routes: [] })
  const saved = await opened.as('acme', { role: 'admin' }).ask('POST /tenant/config', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ routes: [{ ...people, request: { body: { ...body, title: { type: 'string', pattern: '(?:a?){240}[b-y]' } }, files: { avatar: {} } } }] })
  })
  t.ok(saved.status < 300, saved.text)
  // Compiles the route.
  t.equal((await sender(opened.as('acme'))('/people', [title('b'), avatar()])).status, 201)
  const pause = holdInPause(t, 'acme')
  const waiting = () => turns.yielder('tenant acme').waiting
  let status = 0
  const sent = sender(opened.as('acme'))('/people', [title(`${'a'.repeat(1000)}z`), avatar()]).then((response) => {
    status = response.status
  })
  await until('its other parts wait', () => waiting() > 0)
  pause.next()
  await until('the form waits or has ended', () => waiting() > 0 || status !== 0)
  t.equal(status, 0)
  pause.end()
  await sent
  t.equal(status, 400)
})

test("a tenant's document accepts forms, in its own storage, and reports their faults", async (t) => {
  const opened = await open(t, { ...document, routes: [] })
  const admin = opened.as('acme', { role: 'admin' })
  const save = (routes: readonly object[]) =>
    admin.ask('POST /tenant/config', { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ routes }) })
  const saved = await save([people, { path: '/json', method: 'post', response: { x: '{{body.x}}' } }])
  t.ok(saved.status < 300, saved.text)
  const send = sender(opened.as('acme'))
  const { status, body: person } = await send('/people', [title(), avatar(), { name: 'age', value: '36' }])
  t.match([status, person], [201, { age: 36, avatar: String }])
  t.equal((await opened.as('globex').ask(`GET /files/${String(person['avatar'])}`)).status, 404)
  refused(t, await send('/people', [title(), avatar()]), 409, 'CONFLICT')
  t.same(await storage(opened.app, 'acme'), { booked: png.length, reserved: 0, shown: png.length })
  refused(t, await send('/json', [title()]), 415, 'MEDIA_TYPE_UNSUPPORTED')
  refused(t, await sender(opened.as('globex'))('/people', [title(), avatar()]), 404, 'NOT_FOUND')
  const faults = async (route: object) => {
    const { body: { details } } = await save([{ ...people, ...route }])
    return details?.map(({ path, message }: { path: string, message: string }) => `${path} ${message}`).join('\n')
  }
  t.match(await faults({ request: { files: { avatar: { bucket: 'attic' } } } }), /files\/avatar\/bucket there is no bucket "attic"/)
  t.match(await faults({ queries: [{ ...insert, data: { title: '{{files.photo.id}}' } }] }), /the form has no file "photo"/)
  t.match(await faults({ queries: [{ ...insert, data: { title: '{{files.avatar.path}}' } }] }), /a file has no `path`/)
  t.match(await faults({ method: 'get' }), /a form requires the `method` `post`, `put` or `patch`/)
  t.match(
    await faults({ multipart: false, queries: [{ ...insert, data: { title: 'x' } }] }),
    /only a route with `multipart: true` accepts files/
  )
})

test('the documentation describes the form', async (t) => {
  const { app } = await open(t, document)
  const { paths } = (await app.inject('/doc')).json()
  const { requestBody, responses } = paths['/people'].post
  t.same(Object.keys(requestBody.content), ['multipart/form-data'])
  t.match(requestBody.content['multipart/form-data'].schema, {
    properties: {
      title: { type: 'string' },
      age: { type: 'integer' },
      avatar: { type: 'string', format: 'binary' },
      cv: { type: 'string', format: 'binary' }
    },
    required: ['title', 'avatar']
  })
  for (const status of [400, 402, 408, 413, 415, 507]) t.ok(responses[status], String(status))
})

test('a form is stored under row-level security', async (t) => {
  const { connectionString } = await postgresDatabase(t, { role: 'owner' })
  const engine = { provider: 'postgres', postgres: { connectionString, rowLevelSecurity: true } } as const
  const opened = await open(t, document, { engine })
  const send = sender(opened.as('acme'))
  const { status, body: person } = await send('/people', [title(), avatar()])
  t.match([status, person], [201, { avatar: String }])
  refused(t, await send('/people', [title(), avatar()]), 409, 'CONFLICT')
  t.same([await storage(opened.app, 'acme'), await rows(opened.app)], [{ booked: png.length, reserved: 0, shown: png.length }, {
    ready: 1
  }])
})

test('while a form is stored, its tenant can be suspended and deleted, and the deletion removes the rows of the form', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const opened = await open(t, document, { engine: { provider: 'postgres', postgres: { connectionString } } })
  const { app } = opened
  const other = new pg.Client({ connectionString })
  await other.connect()
  t.teardown(() => other.end())
  // The insert of the form waits for this one, because titles are unique.
  await other.query("begin; insert into people (tenant_id, title) values ('acme', 'Ada')")
  const waiting = async () =>
    (await query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")).length
  const sent = sender(opened.as('acme'))('/people', [title(), avatar()])
  await until('the form waits', async () => await waiting() === 1)
  t.match(await app.tenants.update('acme', { status: 'suspended', plan: 'small' }), { status: 'suspended', plan: 'small' })
  t.equal(await waiting(), 1, 'the form still waits')
  const { ended } = await app.tenants.beginDeletion('acme')
  await until('the deletion waits for the form', async () => (await query(waitingDeletions)).length > 0)
  t.equal(await waiting(), 1, 'the form still waits')
  await other.query('rollback')
  t.match(await sent, { status: 201 })
  await ended
  const left = await sql`select tenant_id from people union all select tenant_id from tenantry.files
    union all select tenant_id from tenantry.audit_log where tenant_id = 'acme'`.execute(app.db)
  t.same([left.rows, await onDisk(opened.folder)], [[], []])
})
