/** Embedded PostgreSQL: PGlite, in this process, driven through pg so that values are the same as with a server. */
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Embedded } from '../config/schema/database.js'
import type { Connections } from './connections.js'
import { PGlite } from '@electric-sql/pglite'
import { createPgConfig } from '@electric-sql/pglite/node-postgres'
import { vector } from '@electric-sql/pglite-pgvector'
import pg from 'pg'
import { setSession, settingsOf } from './connections.js'
import { takeLock } from './embedded-lock.js'
import { preparedData, savePreparedData } from './embedded-prepared.js'
import { unpack } from './tar.js'

/** One session serves everything in turn, so waiting is ordinary; beyond this the caller is told that the database is busy. */
const acquireTimeoutMs = 5000
const statementTimeoutMs = 30_000 // PGlite knows the setting and does not act on it

const extensions = { vector }

/**
 * Opens the folder, or a database in memory. What is acknowledged survives the end of the process in any way, not the
 * loss of power (PGlite does not sync). Throws where another process uses the folder.
 */
export async function connectEmbedded ({ dbPath }: Embedded = {}): Promise<Connections> {
  if (dbPath === undefined) return onDatabase(await openMemory(), async () => {})
  const folder = resolve(dbPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const unlock = await takeLock(folder)
  try {
    return { ...onDatabase(await openFolder(folder), unlock), folder }
  } catch (error) {
    await unlock()
    throw error
  }
}

async function openFolder (folder: string): Promise<PGlite> {
  const data = join(folder, 'data')
  if (!await exists(join(data, 'PG_VERSION'))) await prepareFolder(folder, data)
  return PGlite.create(data, { extensions })
}

/** The data gets its name when it is complete: a first start that was cut off is begun anew. */
async function prepareFolder (folder: string, data: string): Promise<void> {
  const unfinished = join(folder, 'data.unfinished')
  await rm(unfinished, { recursive: true, force: true })
  const prepared = await preparedData()
  if (prepared !== null) {
    unpack(prepared, unfinished)
  } else {
    const database = await PGlite.create(unfinished, { extensions })
    await savePreparedData(database)
    await database.close()
  }
  await rename(unfinished, data)
}

async function openMemory (): Promise<PGlite> {
  const prepared = await preparedData()
  if (prepared !== null) return PGlite.create('memory://', { extensions, loadDataDir: new Blob([prepared], { type: 'application/x-tar' }) })
  const database = await PGlite.create('memory://', { extensions })
  await savePreparedData(database)
  return database
}

function onDatabase (database: PGlite, closed: () => Promise<void>): Connections {
  const settings = settingsOf(statementTimeoutMs)
  return {
    kind: 'embedded',
    max: 1,
    acquireTimeoutMs,
    pool: new pg.Pool({
      ...createPgConfig(database),
      max: 1,
      connectionTimeoutMillis: acquireTimeoutMs,
      idleTimeoutMillis: 0,
      onConnect: async (client) => { await client.query(setSession(settings)) }
    }),
    settings: { statementTimeoutMs, silenceMs: undefined, prepared: true, rowLevelSecurity: false, transaction: {} },
    async close () {
      await database.close()
      await closed()
    }
  }
}

async function exists (path: string): Promise<boolean> {
  return stat(path).then(() => true, () => false)
}
