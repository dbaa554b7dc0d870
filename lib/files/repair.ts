/**
 * Repairs a file store from the database: copies objects that one of two stores lacks, moves those that a disk stored under another
 * spelling of the tenant, deletes those without a row, and aborts old incomplete uploads. Servers may serve.
 */
import type { Kysely, Selectable } from 'kysely'
import type { SystemTables } from '../database/system-tables.js'
import { isUuid } from '../identity/uuid.js'
import { dayMs } from '../time/spans.js'
import type { RepairableStore } from './open.js'
import type { IncompleteUpload, StoredObject } from './store.js'

const pageSize = 500 // rows
const atOnce = 8 // objects at a time
const leastAgeMs = dayMs // minimum age of a deleted object or an aborted upload: the upload may still run, and its row may be invisible
const fewOrphans = 10 // are always deleted
const maxShare = 0.1 // of the objects; more without a row suggest that they belong to another database

interface RepairReport {
  /** Files whose object is in every store. */
  complete: number
  copied: number
  /** Objects without a row. */
  deleted: number
  /** Incomplete uploads whose parts were deleted. */
  aborted: number
  /** The error of the list of incomplete uploads: services and permissions may lack it. */
  unlisted: { readonly error: unknown } | null
  /** Numbers of objects, if too many have no row: then none is deleted. */
  refused: { readonly orphans: number, readonly objects: number } | null
  /** Keys of files whose object is in no store. */
  readonly lost: string[]
  /** Keys that could not be repaired, with the error. */
  readonly failed: Array<{ readonly key: string, readonly error: unknown }>
}

type FileRow = Pick<Selectable<SystemTables['tenantry.files']>, 'tenant_id' | 'id' | 'content_type'>

const readable = ['ready', 'quarantined'] as const

interface RepairOptions {
  /** Delete objects without a row, however many. */
  readonly deleteAll: boolean
}

export async function repairFiles (
  db: Kysely<SystemTables>,
  store: RepairableStore,
  { deleteAll }: RepairOptions
): Promise<RepairReport> {
  const report: RepairReport = { complete: 0, copied: 0, deleted: 0, aborted: 0, unlisted: null, refused: null, lost: [], failed: [] }
  const attempt = (key: string, work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      report.failed.push({ key, error })
    })

  /** Files whose object is in no store, or that could not be repaired, by their key in small letters. */
  const missing = new Map<string, FileRow>()
  const lost = new Set<string>()

  async function restore (row: FileRow): Promise<void> {
    const { tenant_id: tenant, id, content_type: contentType } = row
    const key = keyOf(row)
    missing.set(key.toLowerCase(), row)
    const result = await store.restore?.(key, contentType) ?? (await store.stat(key) === null ? 'lost' : 'complete')
    if (result === 'complete') report.complete++
    // The file may have been deleted in the meantime.
    else if (!isReadable(await statusOf(db, tenant, id))) await store.delete(key)
    else if (result === 'copied') report.copied++
    else lost.add(key)
    if (!lost.has(key)) missing.delete(key.toLowerCase())
  }

  /** Moves the object of a missing file to its tenant. Two tenants had one folder on a disk that ignores case. */
  async function move (from: string, row: FileRow): Promise<void> {
    const key = keyOf(row)
    if (await hasRow(db, from) || await store.stat(key) !== null || !await store.copy(from, key)) return
    lost.delete(key)
    await restore(row)
    await store.delete(from)
  }

  for (let after: FileRow | undefined, isMore = true; isMore;) {
    const rows = await page(db, after)
    await inParallel(rows, (row) => attempt(keyOf(row), () => restore(row)))
    after = rows.at(-1)
    isMore = rows.length === pageSize
  }
  if (lost.size > 0) {
    for await (const objects of store.list('')) {
      await inParallel(objects, async ({ key }) => {
        const row = missing.get(key.toLowerCase())
        if (row !== undefined && key !== keyOf(row) && lost.has(keyOf(row))) await attempt(keyOf(row), () => move(key, row))
      })
    }
  }
  for (const key of lost) report.lost.push(key)
  const isOrphan = async ({ key, modifiedAt }: StoredObject) =>
    isOld(modifiedAt) && !missing.has(key.toLowerCase()) && !await hasRow(db, key)
  if (!deleteAll) {
    report.refused = await tooMany(store, isOrphan)
    if (report.refused !== null) return report
  }
  for await (const objects of store.list('')) {
    await inParallel(objects, (object) =>
      attempt(object.key, async () => {
        if (!await isOrphan(object)) return
        await store.delete(object.key)
        report.deleted++
      }))
  }
  try {
    for await (const uploads of store.incompleteUploads?.() ?? []) {
      await inParallel(uploads.filter(isLeft), ({ key, abort }) =>
        attempt(key, async () => {
          await abort()
          report.aborted++
        }))
    }
  } catch (error) {
    report.unlisted = { error }
  }
  return report
}

/** Whether the process of an upload has ended. Uploads of other programs are left alone. */
function isLeft ({ key, startedAt }: IncompleteUpload): boolean {
  return objectKey.test(key) && isOld(startedAt)
}

/** Counts the objects without a row; null if they may be deleted. */
async function tooMany (
  store: RepairableStore,
  isOrphan: (object: StoredObject) => Promise<boolean>
): Promise<RepairReport['refused']> {
  let [orphans, objects] = [0, 0]
  for await (const listed of store.list('')) {
    // A signed upload leaves its object with every database, and in any number.
    const counted = listed.filter(({ key }) => !/-upload$/.test(key))
    objects += counted.length
    await inParallel(counted, async (object) => {
      // The repair that follows reports a failed look-up.
      if (await isOrphan(object).catch(() => false)) orphans++
    })
  }
  return orphans > fewOrphans && orphans > objects * maxShare ? { orphans, objects } : null
}

async function page (db: Kysely<SystemTables>, after: FileRow | undefined): Promise<FileRow[]> {
  const rows = db.selectFrom('tenantry.files').select(['tenant_id', 'id', 'content_type'])
    .where('status', 'in', readable).orderBy('tenant_id').orderBy('id').limit(pageSize)
  if (after === undefined) return await rows.execute()
  return await rows.where(({ eb, refTuple, tuple }) => eb(refTuple('tenant_id', 'id'), '>', tuple(after.tenant_id, after.id))).execute()
}

/** The status of a file; undefined without a row. */
async function statusOf (db: Kysely<SystemTables>, tenant: string, id: string): Promise<string | undefined> {
  const row = await db.selectFrom('tenantry.files').select('status').where('tenant_id', '=', tenant).where('id', '=', id).executeTakeFirst()
  return row?.status
}

function keyOf ({ tenant_id: tenant, id }: FileRow): string {
  return `${tenant}/${id}`
}

function isReadable (status: string | undefined): boolean {
  return readable.some((each) => each === status)
}

function isOld (date: Date): boolean {
  return Date.now() - date.getTime() > leastAgeMs
}

const objectKey = /^([^/]+)\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(.+))?$/

/** Whether the file of the object, or its image or part, has a row. Objects with other keys are assumed to have one. */
async function hasRow (db: Kysely<SystemTables>, key: string): Promise<boolean> {
  const [, tenant, id, name] = objectKey.exec(key) ?? []
  if (tenant === undefined || id === undefined) return true
  if (name === undefined || name === 'upload') {
    const status = await statusOf(db, tenant, id)
    // A signed upload bypasses the server; its object is not needed once the file is confirmed.
    return status !== undefined && (name === undefined || !isReadable(status))
  }
  if (isUuid(name)) {
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
