/** Documents and searches of tenants that are deleted before the model has embedded their texts, and whose ids later tenants have. */
import { Readable } from 'node:stream'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { gate } from '../../helpers/gate.js'
import { replaceTenant } from '../../helpers/succession.js'
import { refused, type Reply } from '../../http/caller.js'
import { open, type Opened } from './app.js'

const document = (text: string) => ({ id: 'pump', contentType: 'text/plain', document: text }) as const

/** The response to a request whose tenant is replaced while its text is embedded. The later tenant has a document. */
async function late ({ app, models, as }: Opened, tenant: string, target: string, body: object): Promise<Reply> {
  const [embedding, door] = [gate(), gate()]
  models.before = async () => {
    embedding.open()
    await door.opened
  }
  const response = as(tenant)(target, { body })
  await embedding.opened
  await replaceTenant(app, tenant)
  models.before = () => undefined
  const signal = new AbortController().signal
  await app.embeddings.put(tenant, document('a pump of the later tenant'), { user: null, signal, actor: noActor })
  door.open()
  return await response
}

test('a document is not stored for a later tenant with the id', async (t) => {
  const opened = await open(t)
  const response = await late(opened, 'acme', 'POST /agent/embeddings/document', document('a pump of the earlier tenant'))
  refused(t, response, 404, 'TENANT_UNKNOWN')
  t.strictSame(await opened.app.embeddings.read('acme', 'pump'), ['a pump of the later tenant'])
  const actions = await opened.app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'action']).where('target', '=', 'pump')
    .execute()
  t.strictSame(actions, [{ tenant_id: 'acme', action: 'document.create' }], 'the later tenant has no entry of it')
})

test('a search reads no document of a later tenant with the id', async (t) => {
  const opened = await open(t)
  for (const mode of ['vector', 'hybrid']) {
    const response = await late(opened, mode, 'POST /agent/embeddings/search', { query: 'a pump', mode })
    refused(t, response, 404, 'TENANT_UNKNOWN', mode)
  }
})

test('a document whose file takes long is not embedded for a later tenant with the id', async (t) => {
  const { app, models, as } = await open(t)
  const [reading, door] = [gate(), gate()]
  await app.tenants.create({ id: 'acme', name: 'Earlier' })
  const file = { name: 'a.txt', contentType: 'text/plain' } as const
  const { id: fileId } = await app.files.put('acme', file, Readable.from(['a pump']), { sub: 'ada', actor: noActor })
  const { open: openFile } = app.files
  t.intercept(app.files, 'open', {
    async value (tenant: string, id: string) {
      const bytes = await openFile(tenant, id)
      reading.open()
      await door.opened
      return bytes
    }
  })
  const response = as('acme')('POST /agent/embeddings/document', { body: { contentType: 'text/plain', fileId } })
  await reading.opened
  await replaceTenant(app, 'acme')
  door.open()
  refused(t, await response, 404, 'TENANT_UNKNOWN')
  t.strictSame(models.calls, [], 'the later tenant pays for nothing')
})
