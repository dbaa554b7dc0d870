/** Images in messages: files of the tenant, by id. */
import { Readable } from 'node:stream'
import { PNG } from 'pngjs'
import t from 'tap'
import { agentOf, ledger, mockProvider, open, providers, wireProvider } from './app.js'

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
