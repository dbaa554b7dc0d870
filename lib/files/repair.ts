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
  const repair = new Repair(db, store)
  await repair.restoreFiles()
  await repair.moveMisplaced()
  if (deleteAll || await repair.hasFewOrphans()) {
    await repair.deleteOrphans()
    await repair.abortUploads()
  }
  return repair.report()
}

/** One run. Its steps stand in the order in which they run. */
class Repair {
  readonly #report: Omit<RepairReport, 'lost'> = {
    complete: 0,
    copied: 0,
    deleted: 0,
    aborted: 0,
    unlisted: null,
    refused: null,
    failed: []
  }

  /** Files whose object is in no store, or that could not be repaired, by their key in small letters. */
  readonly #missing = new Map<string, FileRow>()
  readonly #lost = new Set<string>()

  constructor (private readonly db: Kysely<SystemTables>, private readonly store: RepairableStore) {}

  report (): RepairReport {
    return { ...this.#report, lost: [...this.#lost] }
  }

  async restoreFiles (): Promise<void> {
    for (let after: FileRow | undefined, isMore = true; isMore;) {
      const rows = await page(this.db, after)
      await inParallel(rows, (row) => this.#attempt(keyOf(row), () => this.#restore(row)))
      after = rows.at(-1)
      isMore = rows.length === pageSize
    }
  }

  /** Moves the objects of missing files to their tenants. Two tenants had one folder on a disk that ignores case. */
  async moveMisplaced (): Promise<void> {
    if (this.#lost.size === 0) return
    for await (const objects of this.store.list('')) {
      await inParallel(objects, async ({ key }) => {
        const row = this.#missing.get(key.toLowerCase())
        if (row === undefined || key === keyOf(row) || !this.#lost.has(keyOf(row))) return
        await this.#attempt(keyOf(row), () => this.#move(key, row))
      })
    }
  }

  /** Whether so few objects have no row that they may be deleted. Otherwise the report has their numbers. */
  async hasFewOrphans (): Promise<boolean> {
    let [orphans, objects] = [0, 0]
    for await (const listed of this.store.list('')) {
      // A signed upload leaves its object with every database, and in any number.
      const counted = listed.filter(({ key }) => !/-upload$/.test(key))
      objects += counted.length
      await inParallel(counted, async (object) => {
        // The deletion that follows reports a failed look-up.
        if (await this.#isOrphan(object).catch(() => false)) orphans++
      })
    }
    if (orphans <= fewOrphans || orphans <= objects * maxShare) return true
    this.#report.refused = { orphans, objects }
    return false
  }

  async deleteOrphans (): Promise<void> {
    for await (const objects of this.store.list('')) {
      await inParallel(objects, (object) =>
        this.#attempt(object.key, async () => {
          if (!await this.#isOrphan(object)) return
          await this.store.delete(object.key)
          this.#report.deleted++
        }))
    }
  }

  async abortUploads (): Promise<void> {
    try {
      for await (const uploads of this.store.incompleteUploads?.() ?? []) {
        await inParallel(uploads.filter(isLeft), ({ key, abort }) =>
          this.#attempt(key, async () => {
            await abort()
            this.#report.aborted++
          }))
      }
    } catch (error) {
      this.#report.unlisted = { error }
    }
  }

  async #attempt (key: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => {
      this.#report.failed.push({ key, error })
    })
  }

  async #restore (row: FileRow): Promise<void> {
    const { tenant_id: tenant, id, content_type: contentType } = row
    const key = keyOf(row)
    this.#missing.set(key.toLowerCase(), row)
    const result = await this.store.restore?.(key, contentType) ?? (await this.store.stat(key) === null ? 'lost' : 'complete')
    if (result === 'complete') this.#report.complete++
    // The file may have been deleted in the meantime.
    else if (!isReadable(await statusOf(this.db, tenant, id))) await this.store.delete(key)
    else if (result === 'copied') this.#report.copied++
    else this.#lost.add(key)
    if (!this.#lost.has(key)) this.#missing.delete(key.toLowerCase())
  }

  async #move (from: string, row: FileRow): Promise<void> {
    const key = keyOf(row)
    if (await hasRow(this.db, from) || await this.store.stat(key) !== null || !await this.store.copy(from, key)) return
    this.#lost.delete(key)
    await this.#restore(row)
    await this.store.delete(from)
  }

  async #isOrphan ({ key, modifiedAt }: StoredObject): Promise<boolean> {
    return isOld(modifiedAt) && !this.#missing.has(key.toLowerCase()) && !await hasRow(this.db, key)
  }
}

/** Whether the process of an upload has ended. Uploads of other programs are left alone. */
function isLeft ({ key, startedAt }: IncompleteUpload): boolean {
  return objectKey.test(key) && isOld(startedAt)
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
