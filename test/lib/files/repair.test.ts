/** Repairs of a store on a disk that ignored case, where two tenants had one folder in an earlier version. */
import { mkdirSync, readdirSync, renameSync, rmdirSync, utimesSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { type Test, test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import { repairFiles } from '../../../lib/files/repair.js'
import { testServer } from '../../helpers/server.js'

/** The tenants `acme` and `Acme` have a file each, both in the folder of the second. `orphan` is there too. */
async function openShared (t: Test) {
  const folder = t.testdir({ files: {} })
  const path = `${folder}/files`
  const app = await testServer(t, { files: { path } }, { tenants: [{ id: 'acme', plan: 'pro' }, { id: 'Acme', plan: 'pro' }] })
  const put = async (tenant: string) =>
    (await app.files.put(tenant, { name: 'a.txt', contentType: 'text/plain' }, Readable.from([Buffer.from(tenant)]), {
      sub: 'ada',
      actor: { userId: 'ada', address: null }
    })).id
  const [small, capital] = [await put('acme'), await put('Acme')]
  mkdirSync(`${path}/shared`)
  for (const [tenant, id] of [['acme', small], ['Acme', capital]] as const) {
    renameSync(`${path}/${tenant}/${id}`, `${path}/shared/${id}`)
    rmdirSync(`${path}/${tenant}`)
  }
  renameSync(`${path}/shared`, `${path}/Acme`)
  const orphan = crypto.randomUUID()
  writeFileSync(`${path}/Acme/${orphan}`, 'x')
  for (const id of [small, capital, orphan]) utimesSync(`${path}/Acme/${id}`, 0, 0)
  return { db: app.engine.kysely, store: createLocalStore(path, async () => true), path, small, capital, orphan }
}

test('files repair moves a file to its tenant out of the folder of a tenant whose id differs in case', async (t) => {
  const { db, store, path, small, capital } = await openShared(t)
  t.match(await repairFiles(db, store, { deleteAll: false }), { complete: 2, deleted: 1, lost: { length: 0 }, failed: { length: 0 } })
  t.strictSame(readdirSync(`${path}/acme`), [small])
  t.strictSame(readdirSync(`${path}/^acme`), [capital])
  t.match(await repairFiles(db, store, { deleteAll: false }), { complete: 2, deleted: 0, lost: { length: 0 } })
})

test('files repair keeps a file in the folder of a tenant whose id differs in case, if it cannot move it', async (t) => {
  const { db, store, path, small, capital } = await openShared(t)
  const full = { ...store, copy: async () => Promise.reject(new Error('the disk is full')) }
  t.match(await repairFiles(db, full, { deleteAll: true }), {
    complete: 1,
    deleted: 1,
    lost: [`acme/${small}`],
    failed: [{ key: `acme/${small}`, error: { message: 'the disk is full' } }]
  })
  t.strictSame(readdirSync(`${path}/^acme`).sort(), [small, capital].sort())
})
