/**
 * Mends a store of files by the rows of the database: objects that one of two stores lacks are copied from the other, and
 * objects without a row are deleted. Servers may serve meanwhile.
 */
import { tenantRef, type Owner } from '../identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import type { RepairableStore } from './open.js'
import { dayMs } from '../time/spans.js'

const pageSize = 500 // rows
const atOnce = 8 // objects
const leastAgeMs = dayMs // of an object that is deleted: that of an upload may come before its row is seen

export interface RepairReport {
  /** Files whose object is in every store. */
  complete: number
  copied: number
  /** Objects without a row. */
  deleted: number
  /** Keys of files whose object is in no store. */
  readonly lost: string[]
  /** Keys that could not be repaired, with the error. */
  readonly failed: Array<{ readonly key: string, readonly error: unknown }>
}

interface FileRow {
  readonly tenant_id: string
  readonly id: string
  readonly content_type: string
}

const readable = ['ready', 'quarantined'] as const

export async function repairFiles (db: Kysely<SystemTables>, store: RepairableStore, now = Date.now): Promise<RepairReport> {
  const report: RepairReport = { complete: 0, copied: 0, deleted: 0, lost: [], failed: [] }
  const attempt = (key: string, work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      report.failed.push({ key, error })
    })

  async function restore ({ tenant_id: tenant, id, content_type: contentType }: FileRow): Promise<void> {
    const key = `${tenant}/${id}`
    const result = await store.restore?.(key, contentType) ?? (await store.stat(key) === null ? 'lost' : 'complete')
    if (result === 'complete') report.complete++
    // The file may have been deleted meanwhile.
    else if (!await isReadable(db, tenantRef(tenant), id)) await store.delete(key)
    else if (result === 'copied') report.copied++
    else report.lost.push(key)
  }

  for (let after: FileRow | undefined, isMore = true; isMore;) {
    const rows = await page(db, after)
    await inParallel(rows, (row) => attempt(`${row.tenant_id}/${row.id}`, () => restore(row)))
    after = rows.at(-1)
    isMore = rows.length === pageSize
  }
  for await (const objects of store.list('')) {
    const old = objects.filter(({ modifiedAt }) => now() - modifiedAt.getTime() > leastAgeMs)
    await inParallel(old, ({ key }) =>
      attempt(key, async () => {
        if (await hasRow(db, key)) return
        await store.delete(key)
        report.deleted++
      }))
  }
  return report
}

async function page (db: Kysely<SystemTables>, after: FileRow | undefined): Promise<FileRow[]> {
  const rows = db.selectFrom('tenantry.files').select(['tenant_id', 'id', 'content_type'])
    .where('status', 'in', readable).orderBy('tenant_id').orderBy('id').limit(pageSize)
  if (after === undefined) return await rows.execute()
  return await rows.where(({ eb, refTuple, tuple }) => eb(refTuple('tenant_id', 'id'), '>', tuple(after.tenant_id, after.id))).execute()
}

async function isReadable (db: Kysely<SystemTables>, tenant: Owner, id: string): Promise<boolean> {
  return await db.selectFrom('tenantry.files').select('id')
    .where('tenant_id', '=', tenant).where('id', '=', id).where('status', 'in', readable).executeTakeFirst() !== undefined
}

const objectKey = /^([^/]+)\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(.+))?$/
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The file of the object has a row, and so has the image or the part that it is. Objects of others are taken to have one. */
async function hasRow (db: Kysely<SystemTables>, key: string): Promise<boolean> {
  const [, tenant, id, name] = objectKey.exec(key) ?? []
  if (tenant === undefined || id === undefined) return true
  if (name === undefined) {
    return await db.selectFrom('tenantry.files').select('id').where('tenant_id', '=', tenant).where('id', '=', id).executeTakeFirst() !==
      undefined
  }
  // Bytes that came past the server: of no use once the file is confirmed.
  if (name === 'upload') {
    return await db.selectFrom('tenantry.files').select('id')
      .where('tenant_id', '=', tenant).where('id', '=', id).where('status', 'not in', readable).executeTakeFirst() !== undefined
  }
  if (uuid.test(name)) {
    return await db.selectFrom('tenantry.file_parts').select('id')
      .where('tenant_id', '=', tenant).where('file_id', '=', id).where('id', '=', name).executeTakeFirst() !== undefined
  }
  return await db.selectFrom('tenantry.file_transforms').select('name')
    .where('tenant_id', '=', tenant).where('file_id', '=', id).where('name', '=', name).executeTakeFirst() !== undefined
}

async function inParallel<T> (items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values()
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (const item of left) await work(item)
  }))
}
