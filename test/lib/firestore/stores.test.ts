/** One contract for documents: the same requests, responses and errors on PostgreSQL, the embedded engine and Firestore. */
import type { Test } from 'tap'
import { test } from 'tap'
import { firestoreServer } from '../../helpers/firestore.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { needsGoogle } from '../../helpers/skips.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'
import { cursors } from './checks/cursors.js'
import { reads } from './checks/reads.js'
import { requests } from './checks/requests.js'
import { writes } from './checks/writes.js'
import { storesDocument } from './document.js'

interface Opened {
  readonly database: TestDocument
  /** Checks that the store does not support are skipped. */
  readonly hasGaps: boolean
}

const stores: Readonly<Record<string, (t: Test) => Promise<Opened>>> = {
  PostgreSQL: async (t) => ({
    database: { databaseProvider: 'postgres', postgres: { connectionString: (await postgresDatabase(t)).connectionString } },
    hasGaps: false
  }),
  'the embedded engine': async () => ({ database: { databaseProvider: 'embedded' }, hasGaps: false }),
  Firestore: async (t) => {
    const { emulatorHost, projectId, isComplete } = await firestoreServer(t)
    return { database: { databaseProvider: 'firebase', firebase: { projectId, emulatorHost } }, hasGaps: !isComplete }
  }
}

const checks = { ...writes, ...reads, ...requests, ...cursors }

const ran: string[] = []

for (const [name, open] of Object.entries(stores)) {
  test(name, async (t) => {
    const { database, hasGaps } = await open(t)
    const app = await testServer(t, storesDocument(database), { tenants: ['a', 'b'] })
    const callers = {
      a: caller(t, app, { tenant: 'a' }),
      b: caller(t, app, { tenant: 'b' }),
      admin: caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'a' }) })
    }
    let count = 0
    for (const [title, { gap, run }] of Object.entries(checks)) {
      const isSkipped = hasGaps && gap !== undefined
      if (!isSkipped) count++
      await t.test(title, { skip: isSkipped && `${needsGoogle} (${gap})` }, (t) => run(t, callers))
    }
    ran.push(`${name}: ${count} of ${Object.keys(checks).length} checks`)
  })
}

test('every store ran the checks', async (t) => {
  for (const line of ran) t.comment(line)
  t.equal(ran.length, Object.keys(stores).length)
})
