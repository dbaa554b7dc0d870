/** Images in messages: files of the tenant, by id. */
import { Readable } from 'node:stream'
import { PNG } from 'pngjs'
import t from 'tap'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/until.js'
import { agentOf, begin, chunk, finish, ledger, mockProvider, open, providers, wireProvider } from './app.js'

const png = PNG.sync.write(new PNG({ width: 2, height: 2, fill: true }))
const pdf = Buffer.from('%PDF-1.4\n')

t.test("a model gets the image of the tenant's file, and no other file", async (t) => {
  for (const provider of providers) {
    const mock = await mockProvider(t)
    mock.onMessage(/colour/, { content: 'Black.' })
    const { app, post } = await open(t, agentOf(provider, `${mock.url}/${provider === 'google' ? 'v1beta' : 'v1'}`), {
      files: { path: t.testdir() }
    })
    const store = async (contentType: string, bytes: Buffer) => {
      const { id } = await app.files.put('acme', { name: 'a file', contentType }, Readable.from([bytes]), {
        sub: 'ada',
        actor: { userId: 'ada', address: null }
      })
      return id
    }
    const bodyOf = (fileId: string) => ({
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Which colour is it?' }, { type: 'image', fileId }] }]
    })
    const image = await store('image/png', png)

    const response = await post('/llm/chat', bodyOf(image))
    t.equal(response.status, 200, `${provider}: ${response.text}`)
    t.match(response.body, { message: { content: 'Black.' } })
    const { tokens } = await ledger(app, 'acme')

    for (
      const [name, fileId, tenant] of [["another tenant's", image, 'globex'], [
        'another type',
        await store('application/pdf', pdf),
        'acme'
      ]] as const
    ) {
      for (const url of ['/llm/chat', '/llm/stream']) {
        const refused = await post(url, bodyOf(fileId), tenant)
        t.equal(refused.status, 400, `${url}: a file ${name}`)
        t.match(refused.body, { details: [{ path: '/body/messages/0/content/1/fileId' }] })
      }
    }
    t.equal(mock.getRequests().length, 1, 'no other request reached the provider')
    t.equal((await ledger(app, 'acme')).tokens, tokens)
    t.strictSame(await ledger(app, 'globex'), { tokens: 0, cost: 0, open: 0 })
  }
})

t.test("every provider gets the image's bytes", async (t) => {
  for (const provider of providers) {
    const wire = await wireProvider(t, (response) => {
      response.writeHead(500).end()
    })
    const { app, post } = await open(t, agentOf(provider, wire.url), { files: { path: t.testdir() } })
    const { id: fileId } = await app.files.put('acme', { name: 'a file', contentType: 'image/png' }, Readable.from([png]), {
      sub: 'ada',
      actor: { userId: 'ada', address: null }
    })
    await post('/llm/chat', { messages: [{ role: 'user', content: [{ type: 'image', fileId }] }] })
    t.ok(JSON.stringify(wire.requests[0]?.body).includes(png.toString('base64')), provider)
  }
})

const uploader = { sub: 'ada', actor: { userId: 'ada', address: null } }
const details = { name: 'a file', contentType: 'image/png' }
const askWith = (...fileIds: readonly string[]) => ({
  messages: [{ role: 'user', content: fileIds.map((fileId) => ({ type: 'image', fileId })) }]
})

t.test('each image is read once, and only after the tokens of the call are reserved', async (t) => {
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk('Black.') + finish({ input: 10, output: 2 }))
  })
  const { app, post } = await open(t, agentOf('local', wire.url), { files: { path: t.testdir() } })
  const opened = t.capture(app.files, 'open', app.files.open)
  const ofSmall = await app.files.put('small', details, Readable.from([png]), uploader)
  t.equal((await post('/llm/chat', askWith(ofSmall.id), 'small')).status, 402, 'an image counts more tokens than the plan has')
  t.equal(opened().length, 0)
  t.strictSame(await ledger(app, 'small'), { tokens: 0, cost: 0, open: 0 })

  const { id } = await app.files.put('acme', details, Readable.from([png]), uploader)
  const response = await post('/llm/chat', askWith(id, id))
  t.equal(response.status, 200, response.text)
  t.equal(opened().length, 1)
  t.equal(JSON.stringify(wire.requests[0]?.body).split(png.toString('base64')).length, 3, 'the provider gets both')
})

t.test("the images of a tenant's calls are bounded in memory, without an effect on other calls", async (t) => {
  const held = gate()
  const wire = await wireProvider(t, async (response) => {
    begin(response)
    response.write(chunk('Black.'))
    await held.opened
    response.end(finish({ input: 10, output: 2 }))
  })
  const { app, post } = await open(t, agentOf('local', wire.url), { files: { path: t.testdir() } })
  const large = Buffer.concat([png, Buffer.alloc(5_242_880 - png.length)])
  const store = async (tenant: string) => (await app.files.put(tenant, details, Readable.from([large]), uploader)).id
  const [own, other] = [await store('acme'), await store('globex')]
  const opened = t.capture(app.files, 'open', app.files.open)

  const first = post('/llm/chat', askWith(own, own, own, own))
  await until('the provider has it', () => wire.requests.length === 1)
  const { open: reserved } = await ledger(app, 'acme')
  for (const url of ['/llm/chat', '/llm/stream']) {
    const refused = await post(url, askWith(own))
    t.equal(refused.status, 503, url)
    t.match(refused.body, { code: 'TENANTRY_PROVIDER_BUSY', message: /^Images of other calls/ })
    t.equal(refused.headers.get('retry-after'), '1')
  }
  t.equal(opened().length, 1, 'an image of a refused call is not read')
  t.equal((await ledger(app, 'acme')).open, reserved, 'nor charged')
  const others = [post('/llm/chat', { messages: [{ role: 'user', content: 'Hello' }] }), post('/llm/chat', askWith(other), 'globex')]
  await until('the provider has the others', () => wire.requests.length === 3)
  held.open()
  for (const call of [first, ...others]) t.equal((await call).status, 200)
  t.equal((await post('/llm/chat', askWith(own))).status, 200, 'and later the tenant again')
})
