/** Invalid forms and exceeded limits: each is rejected with the reason, and leaves nothing. */
import type { Test } from 'tap'
import { test } from 'tap'
import { refused } from '../../http/caller.js'
import { boundary, file, form, formHeaders, MB, onDisk, open, type Opened, type Part, rows, storage, userOf } from './app.js'

async function nothingLeft (t: Test, { app, folder }: Opened, tenant = 'acme'): Promise<void> {
  t.same(
    [await onDisk(folder), await rows(app), await storage(app, tenant)],
    [[], {}, { booked: 0, reserved: 0, shown: 0 }],
    'nothing remains'
  )
}

test('a file name is data', async (t) => {
  const { as, folder } = await open(t)
  const ada = as('acme')
  const nameOf = async (filename: string) => {
    const { status, body } = await ada.upload([file('x', filename)])
    return status === 201 ? body['name'] : [status, body.details?.[0]]
  }
  t.equal(await nameOf('../../../etc/passwd'), 'passwd')
  t.equal(await nameOf('..\\\\..\\\\windows\\\\x.ini'), 'x.ini')
  t.equal(await nameOf('cafe\u0301.txt'), 'caf\u00e9.txt', 'in NFC')
  t.equal(await nameOf('данные 😀.txt'), 'данные 😀.txt')
  t.equal(await nameOf('é'.repeat(255)), 'é'.repeat(255))
  t.same(await nameOf('n'.repeat(1000)), [400, {
    path: '/body/file',
    message: 'the file name must have at most 255 characters',
    keyword: 'maxLength'
  }])
  t.same(await nameOf('a\0b'), [
    400,
    { path: '/body/file', message: 'the file name must not contain control characters', keyword: 'pattern' }
  ])
  t.same(await nameOf(''), [400, { path: '/body/file', message: 'must have a file name', keyword: 'required' }])
  t.same((await onDisk(folder)).filter((path) => !/^acme\/[0-9a-f-]{36}$/.test(path)), [], 'the server names the objects')
  const { body: { url } } = await ada.upload([file('x', 'a"; filename=b%2F\\\\(😀)\'.txt')])
  t.equal(
    (await ada.ask(`GET ${String(url)}`)).headers['content-disposition'],
    "attachment; filename=\"(__)'.txt\"; filename*=UTF-8''%28%F0%9F%98%80%29%27.txt"
  )
})

test('metadata with a number that no double holds is stored, answered and listed with every digit', async (t) => {
  const { as } = await open(t)
  const ada = as('acme')
  const metadata = '{"id":12345678901234567890,"share":0.12345678901234567890123,"list":[9007199254740993],"__proto__":{"x":1}}'
  const entity = [{ name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }]
  const { status, text } = await ada.upload([file('a'), ...entity, { name: 'metadata', value: metadata }])
  t.equal(status, 201, text)
  const announcement = '{"name":"a.txt","contentType":"text/plain","size":1,"metadata":{"id":12345678901234567890}}'
  const announced = await ada.ask('POST /files/presign', { headers: { 'content-type': 'application/json' }, body: announcement })
  t.equal(announced.status, 201, announced.text)
  await ada.ask(`PUT ${String(announced.body['url'])}`, { body: 'b' })
  const confirmed = await ada.ask(`POST /files/${String(announced.body['id'])}/confirm`)
  t.match(confirmed.text, '"metadata":{"id":12345678901234567890}')
  const listed = await ada.ask('GET /files/entity/notes/1')
  for (const number of ['12345678901234567890', '0.12345678901234567890123', '[9007199254740993]', '"__proto__":{"x":1}']) {
    t.ok(text.includes(number), `${number} in ${text}`)
    t.ok(listed.text.includes(number), `${number} in ${listed.text}`)
  }
  refused(t, await ada.upload([file('a'), { name: 'metadata', value: '{"a":1e400}' }]), 400, 'VALIDATION_FAILED', 'beyond a double')
})

test('a field of the type JSON, whose numbers the parser rounds, is refused', async (t) => {
  const opened = await open(t)
  const ada = opened.as('acme')
  for (const value of ['{"id":9007199254740993}', '['.repeat(8000) + ']'.repeat(8000)]) {
    const { status, body } = await ada.upload([{ name: 'metadata', value, type: 'application/json' }, file('a')])
    t.same([status, body.details], [400, [{
      path: '/body/metadata',
      message: 'must be text, but its Content-Type is application/json',
      keyword: 'type'
    }]])
  }
  await nothingLeft(t, opened)
})

test('a part without a name is refused', async (t) => {
  const opened = await open(t, { routes: [{ path: '/inbox', method: 'post', multipart: true, response: {} }] })
  const ada = opened.as('acme')
  const nameless = ['form-data; filename="a.txt"', 'form-data'].map((disposition) =>
    `--${boundary}\r\ncontent-disposition: ${disposition}\r\n\r\nx\r\n`
  )
  for (const target of ['POST /files/upload', 'POST /inbox']) {
    for (const part of nameless) {
      const response = await ada.ask(target, { headers: formHeaders, body: Buffer.concat([Buffer.from(part), form([file('a')])]) })
      refused(t, response, 400, 'BAD_REQUEST')
      t.equal(response.body['message'], 'A part of the form has no name')
    }
  }
  await nothingLeft(t, opened)
})

test('metadata with escaped characters is stored, and one with half of a surrogate pair is refused in any case', async (t) => {
  const { as } = await open(t)
  const ada = as('acme')
  const { status, body } = await ada.upload([file('a'), { name: 'metadata', value: '{"mood":"\\ud83d\\ude00"}' }])
  t.same([status, body['metadata']], [201, { mood: '😀' }])
  for (const half of ['\\ud83d', '\\uD83D', '\\uDE00']) {
    const refusal = await ada.upload([file('a'), { name: 'metadata', value: `{"mood":"${half}"}` }])
    t.same([refusal.status, refusal.body.details?.[0]?.path], [400, '/body/metadata'], half)
  }
})

test('a form must contain one file and its fields', async (t) => {
  const opened = await open(t, { files: { buckets: { photos: { types: ['image/*'] } } } })
  const ada = opened.as('acme')
  const entity = [{ name: 'entityType', value: 'notes' }, { name: 'entityId', value: '1' }]
  const detail = async (parts: readonly Part[]) => {
    const { status, body } = await ada.upload(parts)
    return [status, body.details?.[0]?.path ?? body['message']]
  }
  t.same(await detail([]), [400, '/body/file'])
  t.same(await detail(entity), [400, '/body/file'])
  t.same(await detail([file('x'), file('y')]), [400, '/body/file'])
  t.same(await detail([{ ...file('x'), name: 'avatar' }]), [400, '/body/avatar'])
  t.same(await detail([file('x'), { name: 'folder', value: 'a' }]), [400, '/body/folder'])
  t.same(await detail([{ name: '__proto__', value: 'a' }, file('x')]), [
    400,
    'The form cannot be read: expected multipart/form-data with a boundary, whole and well-formed'
  ])
  t.same(await detail([file('x'), { name: 'bucket', value: 'private' }, { name: 'bucket', value: 'public' }]), [400, '/body/bucket'])
  t.same(await detail([file('x'), entity[0]!]), [400, '/body/entityId'])
  t.same(await detail([file('x'), entity[1]!]), [400, '/body/entityType'])
  t.same(await detail([file('x'), { name: 'entityType', value: 'n'.repeat(201) }, entity[1]!]), [400, '/body/entityType'])
  t.same(await detail([file('x'), { name: 'bucket', value: 'attic' }]), [400, '/body/bucket'])
  t.same(await detail([file('x'), { name: 'bucket', value: 'private' }, { name: 'public', value: 'true' }]), [400, '/body/public'])
  t.same(await detail([file('x'), { name: 'bucket', value: 'public' }, { name: 'public', value: 'false' }]), [400, '/body/public'])
  t.same(await detail([file('x'), { name: 'public', value: 'yes' }]), [400, '/body/public'])
  for (
    const value of [
      '',
      '[]',
      '"a"',
      'null',
      '{',
      '{"a":"\\u0000"}',
      '{"a":"\\uD800"}',
      `{"a":"${'x'.repeat(8192)}"}`,
      `{"a":"${'x'.repeat(40_000)}"}`,
      '{"a":'.repeat(100) + '1' + '}'.repeat(100)
    ]
  ) {
    t.same(await detail([file('x'), { name: 'metadata', value }]), [400, '/body/metadata'], value.slice(0, 20))
  }
  t.same(await detail([...Array.from({ length: 12 }, (_, index) => ({ name: `f${index}`, value: '' }))]), [
    400,
    'The form has too many parts: expected one file, and the fields entityType, entityId, public, bucket, metadata'
  ])
  t.same(await detail([file('x'), { name: 'bucket', value: 'photos' }]), [
    415,
    'The bucket "photos" does not accept files of the type text/plain: expected image/*'
  ])
  t.same(await detail([{ name: 'bucket', value: 'photos' }, file('<svg xmlns="http://www.w3.org/2000/svg"/>', 'a.svg', 'image/svg+xml')]), [
    415,
    'The bucket "photos" does not accept files of the type image/svg+xml: expected image/*'
  ])
  t.same(await detail([{ name: 'bucket', value: 'photos' }, file('<p>no image</p>', 'a.png', 'image/png')]), [
    415,
    'The bucket "photos" does not accept files of the type application/octet-stream: expected image/*'
  ])
  for (const type of ['multipart/form-data', 'multipart/form-data; boundary=']) {
    refused(t, await ada.upload([file('x')], { 'content-type': type }), 400, 'BAD_REQUEST', type)
  }
  refused(
    t,
    await ada.upload([file('x')], { 'content-type': 'multipart/form-data; boundary=another' }),
    400,
    'BAD_REQUEST',
    'another boundary'
  )
  refused(
    t,
    await ada.ask('POST /files/upload', {
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: form([file('x'.repeat(1000))]).subarray(0, 500)
    }),
    400,
    'BAD_REQUEST',
    'the form ends early'
  )
  refused(
    t,
    await ada.ask('POST /files/upload', { headers: { 'content-type': 'application/json' }, body: '{}' }),
    415,
    'MEDIA_TYPE_UNSUPPORTED'
  )
  refused(t, await ada.ask('POST /files/upload', { headers: { 'content-type': 'text/plain' }, body: 'x' }), 415, 'MEDIA_TYPE_UNSUPPORTED')
  refused(
    t,
    await ada.ask('POST /files/upload?x=1', { headers: { 'content-type': `multipart/form-data; boundary=${boundary}` }, body: form([]) }),
    400,
    'VALIDATION_FAILED'
  )
  refused(t, await (opened.as('acme', { tenant_id: undefined })).upload([file('x')]), 400, 'TENANT_REQUIRED')
  await nothingLeft(t, opened)
})

test('a boundary has at most 70 characters', async (t) => {
  const opened = await open(t, { routes: [{ path: '/inbox', method: 'post', multipart: true, response: { id: '{{files.file.id}}' } }] })
  const stranger = userOf(t, opened.origin, { 'x-tenant-id': 'acme' })
  for (const [user, path] of [[opened.as('acme'), '/files/upload'], [stranger, '/inbox']] as const) {
    const send = (own: string, header: string) =>
      user.ask(`POST ${path}`, {
        headers: { 'content-type': `multipart/form-data; boundary=${header}` },
        body: form([file('x')]).toString().replaceAll(boundary, own)
      })
    for (const length of [71, 252]) {
      const long = 'a'.repeat(length)
      for (const header of [long, `"${long}"`, `${long}; charset=utf-8`]) {
        const { status, body: { code, message } } = await send(long, header)
        t.match([status, code, message], [400, 'TENANTRY_BAD_REQUEST', /boundary of 1 to 70 characters/], `${path}: ${length}`)
      }
    }
    const longest = 'a'.repeat(70)
    for (const header of [longest, `"${longest}"`, `${longest}; charset=utf-8`]) {
      t.equal((await send(longest, header)).status, path === '/inbox' ? 200 : 201, header)
    }
  }
})

test("the smallest of several limits applies, and only the plan's names an upgrade", async (t) => {
  const opened = await open(t, { files: { maxFileSizeMB: 2, buckets: { icons: { maxFileSizeMB: 0.001, public: true } } } }, {
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'small', plan: 'small' }]
  })
  const ada = opened.as('acme')
  const bucket = { name: 'bucket', value: 'icons' }
  const refusal = async (user: typeof ada, ...parts: Part[]) => {
    const { status, body: { code, message, upgrade, allowed } } = await user.upload(parts)
    return status === 201 ? status : { status, code, message, ...(upgrade !== undefined && { upgrade, allowed }) }
  }
  const tooLarge = { status: 413, code: 'TENANTRY_FILE_TOO_LARGE' }
  t.same(await refusal(ada, file(Buffer.alloc(2 * MB + 1))), {
    ...tooLarge,
    message: 'The file is larger than 2097152 bytes, the limit of this server'
  })
  const ofIcons = { ...tooLarge, message: 'The file is larger than 1048 bytes, the limit of the bucket "icons"' }
  t.same(await refusal(ada, bucket, file(Buffer.alloc(1049))), ofIcons)
  t.same(await refusal(ada, file(Buffer.alloc(1049)), bucket), ofIcons, 'a bucket field after the file counts too')
  const small = opened.as('small')
  t.same(await refusal(small, file(Buffer.alloc(MB + 1))), {
    ...tooLarge,
    message: 'The plan "small" includes files of up to 1 MB',
    upgrade: { plan: 'large', limit: -1 },
    allowed: false
  })
  t.same(await refusal(small, bucket, file(Buffer.alloc(MB + 1))), ofIcons)
  for (const tenant of ['acme', 'small']) await nothingLeft(t, opened, tenant)
  t.equal(await refusal(ada, file(Buffer.alloc(2 * MB))), 201)
  t.equal(await refusal(ada, file(Buffer.alloc(1048)), bucket), 201)
  t.equal(await refusal(small, file(Buffer.alloc(MB))), 201)
})

test('a bucket with permissions is limited to their holders, for reads and writes', async (t) => {
  const opened = await open(t, {
    files: { buckets: { pay: { permissions: ['pay:read', 'pay:write'] }, press: { public: true, permissions: ['press:write'] } } }
  })
  const [clerk, ada] = [opened.as('acme', { sub: 'clerk', permissions: ['pay:*', 'press:write'] }), opened.as('acme')]
  const parts = [file('x'), { name: 'entityType', value: 'e' }, { name: 'entityId', value: '1' }, { name: 'bucket', value: 'pay' }]
  refused(t, await ada.upload(parts), 403, 'FORBIDDEN', 'the bucket after the file')
  refused(t, await ada.upload([parts[3]!, ...parts.slice(0, 3)]), 403, 'FORBIDDEN', 'the bucket before the file')
  refused(t, await ada.upload([file('x'), { name: 'bucket', value: 'press' }]), 403, 'FORBIDDEN')
  refused(
    t,
    await ada.ask('POST /files/presign', {
      headers: { 'content-type': 'application/json' },
      body: '{"name":"a","contentType":"text/plain","size":1,"bucket":"pay"}'
    }),
    403,
    'FORBIDDEN'
  )
  await nothingLeft(t, opened)
  const { body: { id, url, key } } = await clerk.upload(parts)
  for (
    const target of [
      `GET /files/${String(id)}`,
      `GET ${String(url)}`,
      `GET /files/signed-url/pay/${String(key)}`,
      `DELETE /files/${String(id)}`,
      `POST /files/${String(id)}/confirm`
    ]
  ) refused(t, await ada.ask(target), 403, 'FORBIDDEN', target)
  t.match((await ada.ask('GET /files/entity/e/1')).body, { data: { length: 0 }, pagination: { total: 0 } })
  t.match((await clerk.ask('GET /files/entity/e/1')).body, { data: [{ id }], pagination: { total: 1 } })
  t.equal((await clerk.ask(`GET ${String(url)}`)).text, 'x')
})
