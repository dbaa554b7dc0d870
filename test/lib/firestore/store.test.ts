/** Deleting a tenant removes its Firestore documents, and no other tenant's. */
import { Firestore } from '@google-cloud/firestore'
import { type Test, test } from 'tap'
import { openFirestore } from '../../../lib/firestore/open.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { firestoreServer, isGoogle } from '../../helpers/firestore.js'
import { testServer } from '../../helpers/server.js'
import { needsGoogle } from '../../helpers/skips.js'
import { bearer } from '../../helpers/tokens.js'

// The emulator from npm does not list collections.
const options = { skip: !isGoogle && needsGoogle }
const count = 750 // documents of one collection: two batches

async function open (t: Test) {
  const { emulatorHost, projectId } = await firestoreServer(t)
  const client = new Firestore({ projectId, host: emulatorHost, ssl: false, credentials: { client_email: 'e', private_key: 'e' } })
  const store = await openFirestore({ emulatorHost, projectId, maxResultBytes: 1000 })
  t.teardown(() => Promise.all([client.terminate(), store.close()]))
  const fill = async (tenant: string): Promise<void> => {
    for (let from = 0; from < count; from += 250) {
      const batch = client.batch()
      for (let n = from; n < from + 250; n++) batch.set(client.doc(`tenants/${tenant}/notes/n${n}`), { n })
      await batch.commit()
    }
    await client.doc(`tenants/${tenant}/others/o`).set({})
    await client.doc(`tenants/${tenant}/others/none/below/deep`).set({})
    await client.doc(`tenants/${tenant}`).set({})
  }
  const left = async (tenant: string): Promise<number[]> => {
    const of = async (path: string) => (await client.collection(`tenants/${tenant}/${path}`).count().get()).data().count
    return [await of('notes'), await of('others'), await of('others/none/below'), (await client.doc(`tenants/${tenant}`).get()).exists ? 1 : 0]
  }
  return { client, store, fill, left, firebase: { projectId, emulatorHost } }
}

const all = [count, 1, 1, 1]
const none = [0, 0, 0, 0]

test('deleting a tenant removes all of its documents, and no others', options, async (t) => {
  const { client, fill, left, firebase } = await open(t)
  const app = await testServer(t, { databaseProvider: 'firebase', firebase, routes: [] }, { tenants: ['a', 'b'] })
  await Promise.all([fill('a'), fill('b'), fill('ab'), client.doc('notes/n1').set({})])
  const { statusCode } = await app.inject({ method: 'DELETE', url: '/tenants/a', headers: bearer({ role: 'admin' }) })
  t.equal(statusCode, 200)
  t.same(await left('a'), none)
  t.same([await left('b'), await left('ab')], [all, all])
  t.equal((await client.doc('notes/n1').get()).exists, true)
})

test('a deletion that failed half-way is continued', options, async (t) => {
  const { store, fill, left } = await open(t)
  await fill('a')
  let batches = 0
  const fails = async (): Promise<boolean> => {
    if (++batches === 2) throw new Error('the database is gone')
    return true
  }
  await t.rejects(store.erase(tenantRef('a'), fails), { message: 'the database is gone' })
  t.same(await left('a'), [count - 500, 1, 1, 1])
  await store.erase(tenantRef('a'), async () => true)
  t.same(await left('a'), none)
})

test('documents of a later tenant with the same id are kept', options, async (t) => {
  const { client, store, fill, left } = await open(t)
  await fill('a')
  await store.erase(tenantRef('a'), async () => false)
  t.same(await left('a'), all, 'the tenant exists again')
  let asked = 0
  await store.erase(tenantRef('a'), async () => {
    if (++asked === 1) await client.doc('tenants/a/notes/n0').set({ of: 'the later one' })
    return asked === 1
  })
  t.same((await client.doc('tenants/a/notes/n0').get()).data(), { of: 'the later one' }, 'the new tenant writes while a batch is removed')
})
