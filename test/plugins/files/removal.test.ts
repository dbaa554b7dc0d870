/** The sweep that removes expired files, of several tenants. */
import { sql } from 'kysely'
import { test } from 'tap'
import { databaseBusy } from '../../../lib/database/failures.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { type Owner, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { createRemoval } from '../../../plugins/files/removal.js'
import { createFileStore } from '../../../plugins/files/store.js'
import { open, type Opened, rows } from './app.js'

/** Adds rows of acme, and a later one of globex, which have all expired. */
async function expire ({ app }: Pick<Opened, 'app'>, count: number, status: 'resumable' | 'removed'): Promise<void> {
  await sql`insert into tenantry.files (tenant_id, id, status, bucket, name, content_type, size, counted, metadata, created_by, created_at, depth, expires_at)
    select case n when ${count} then 'globex' else 'acme' end, gen_random_uuid(), ${status}, 'private', 'a', 'text/plain', 1, 0, '{}', 'ada', now(), 0,
      now() - interval '1 hour' + n * interval '1 ms' from generate_series(0, ${count}::integer) n`.execute(app.db)
}

/** A removal that calls `begin` before each file that it removes, and before each whose objects it deletes. */
function removalOf ({ app, folder }: Opened, begin: (tenant: Owner) => void, turnMs?: number) {
  const dbFor = (tenant: string) => app.engine.kyselyFor(tenantRef(tenant))
  const objects = createLocalStore(folder)
  const store = createFileStore(app.db, dbFor)
  return createRemoval({
    objects,
    store: {
      ...store,
      async remove (writer, tenant, ...rest) {
        begin(tenant)
        return await store.remove(writer, tenant, ...rest)
      }
    },
    parts: createFileParts(objects, dbFor),
    transforms: {
      async deleteObjects (tenant) {
        begin(tenant)
      }
    },
    dbFor,
    usage: () => null,
    emitter: () => null,
    now: Date.now,
    log: app.log,
    ...turnMs !== undefined && { turnMs }
  })
}

for (const status of ['resumable', 'removed'] as const) {
  test(`a tenant with a slow database does not hold up the sweep of others: ${status}`, async (t) => {
    const opened = await open(t)
    await expire(opened, 150, status)
    const begun: Owner[] = []
    await removalOf(opened, (tenant) => {
      begun.push(tenant)
      if (tenant === 'acme') throw databaseBusy()
    }).sweep()
    t.equal(begun.filter((tenant) => tenant === 'acme').length, 1, 'one file is tried')
    t.same(await rows(opened.app), { [status]: 150 }, 'the file of the other tenant is removed')
  })

  test(`a tenant with many files takes turns with others, and all files are removed: ${status}`, async (t) => {
    const opened = await open(t)
    await expire(opened, 110, status)
    const begun: Owner[] = []
    await removalOf(opened, (tenant) => {
      begun.push(tenant)
    }, 0).sweep()
    t.ok(begun.indexOf(tenantRef('globex')) < 5, begun.slice(0, 10).join())
    if (status === 'resumable') t.same(await rows(opened.app), {})
  })
}

test('a sweep does not read every part of unfinished uploads', async (t) => {
  const { app } = await open(t)
  await expire({ app }, 1, 'resumable')
  await sql`insert into tenantry.file_parts (tenant_id, file_id, id, start, size)
    select tenant_id, id, gen_random_uuid(), n, 1 from tenantry.files, generate_series(0, 1999) n`.execute(app.db)
  await sql`analyze tenantry.file_parts`.execute(app.db)
  await sql`update tenantry.files set status = 'ready', sha256 = repeat('0', 64), expires_at = null
    where tenant_id = 'globex'`.execute(app.db)
  await app.db.transaction().execute(async (transaction) => {
    const store = createFileStore(transaction, () => transaction)
    const complete = await store.completeWithParts(undefined, [], 100)
    t.match(complete, [{ tenant: 'globex' }])
    t.strictSame(await store.completeWithParts(complete.at(-1), [], 100), [])
    t.strictSame(await store.completeWithParts(undefined, [tenantRef('globex')], 100), [])
    const { rows: [read] } = await sql<{ rows: number }>`select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
      from pg_stat_xact_user_tables where relid = 'tenantry.file_parts'::regclass`.execute(transaction)
    t.ok(read !== undefined && read.rows < 100, `${read?.rows} of 4000 parts`)
  })
})
