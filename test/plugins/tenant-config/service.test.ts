import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createConfigService } from '../../../plugins/tenant-config/service.js'
import type { ConfigStore } from '../../../plugins/tenant-config/store.js'
import { context } from '../../lib/tenant-document/documents.js'

test('a save without access to secrets is rejected if another save changed the document meanwhile', async (t) => {
  const credentials = { email: { apiKey: '{{secret:mail}}' } }
  const inForce = { version: 1, document: { credentials }, createdAt: new Date(0) }
  const store: ConfigStore = {
    read: async () => inForce,
    versions: async () => ({ data: [], total: 0 }),
    // Meanwhile an administrator saves a document without the secret.
    async save ({ guard }) {
      guard(2)
      return 3
    }
  }
  const service = createConfigService(store, () => context, async () => {}, async () => new Map())
  const save = (document: unknown, maySecrets: boolean) =>
    service.save({
      tenant: { id: tenantIdOf('acme'), createdAt: new Date(0) },
      document,
      claims: { sub: 'editor', tenant_id: 'acme' },
      actor: noActor,
      match: undefined,
      dryRun: false,
      renew: async () => {},
      usesSecrets: () => maySecrets
    })
  await t.rejects(save({ credentials }, false), { code: 'TENANTRY_VERSION_CONFLICT' })
  t.equal((await save({ credentials }, true)).version, 3, 'an administrator')
  t.equal((await save({ settings: { a: 1 } }, false)).version, 3, 'a document without secrets')
})
