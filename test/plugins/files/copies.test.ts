/** Copies of files by workflow steps that are refused after the original was opened. */
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import type { Tenant } from '../../../plugins/tenancy/tenant.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { replaceTenant } from '../../helpers/succession.js'
import { MB, onDisk, plans, rows } from './app.js'

async function put (app: FastifyInstance, content: string): Promise<string> {
  const file = { name: 'a.txt', contentType: 'text/plain' }
  const { id } = await app.files.put('acme', file, Readable.from([content]), { sub: 'ada', actor: noActor })
  return id
}

async function copy (app: FastifyInstance, id: string, owner: Tenant | null): Promise<unknown> {
  return await app.routeFiles.step.run({ operation: 'copy', params: { id } }, {
    tenant: tenantIdOf('acme'),
    life: owner?.life,
    user: null,
    toolDepth: 0,
    webhookDepth: 0,
    routeTools: async () => new Map(),
    idempotencyKey: 'run:copy',
    isRepeated: false,
    wasSent: false,
    note: () => {},
    signal: new AbortController().signal
  })
}

test('a step copies no file to a later tenant with the id', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  const [read, door] = [gate(), gate()]
  const store: ObjectStore = {
    ...disk,
    async get (key, range) {
      const bytes = await disk.get(key, range)
      const whole = bytes === null ? null : Readable.from([await buffer(bytes)])
      read.open()
      await door.opened
      return whole
    }
  }
  const { app } = await testApp(t, { engine: { provider: 'embedded' }, plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const id = await put(app, 'of the earlier tenant')
  const refused = t.rejects(copy(app, id, await app.tenants.get('acme')), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await read.opened
  await replaceTenant(app, 'acme')
  door.open()
  await refused
  t.same([await rows(app), await onDisk(folder)], [{}, []])
})

test('a step whose copy is too large closes the original', async (t) => {
  const disk = createLocalStore(t.testdir())
  const originals: Readable[] = []
  const store: ObjectStore = {
    ...disk,
    async get (key, range) {
      const bytes = await disk.get(key, range)
      if (bytes !== null) originals.push(bytes)
      return bytes
    }
  }
  const { app } = await testApp(t, {
    engine: { provider: 'embedded' },
    plugins: { plans: { plans }, tenancy: {}, files: { store } },
    tenants: [{ id: 'acme', plan: 'large' }]
  })
  const id = await put(app, 'x'.repeat(2 * MB))
  await app.tenants.update('acme', { plan: 'small' })
  await t.rejects(copy(app, id, await app.tenants.get('acme')), { code: 'TENANTRY_FILE_TOO_LARGE' })
  t.strictSame(originals.map(({ destroyed }) => destroyed), [true])
})
