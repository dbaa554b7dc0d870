/** Embedded PostgreSQL: PGlite, in this process, driven through pg so that values are the same as with a server. */
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Embedded } from '../schema/database.js'
import type { Connections } from './connections.js'
import type { PGlite } from '@electric-sql/pglite'
import pg from 'pg'
import { setSession, settingsOf } from './connections.js'
import { takeLock } from './embedded-lock.js'
import { preparedData, savePreparedData } from './embedded-prepared.js'
import { unpack } from './tar.js'

/** One session serves everything in turn, so waiting is ordinary; beyond this the answer is that the database is busy. */
const acquireTimeoutMs = 5000
const statementTimeoutMs = 30_000 // PGlite knows the setting and does not act on it

/** What this module needs of the embedded engine. Only a server that uses it loads its packages. */
interface Pglite {
  create(folder: string, options?: { loadDataDir: Blob }): Promise<PGlite>
  configOf(database: PGlite): object
}

async function loadPglite (): Promise<Pglite> {
  const [{ PGlite }, { createPgConfig }, { vector }] = await Promise.all([
    import('@electric-sql/pglite'),
    import('@electric-sql/pglite/node-postgres'),
    import('@electric-sql/pglite-pgvector')
  ])
  return {
    create: (folder, options) => PGlite.create(folder, { ...options, extensions: { vector } }),
    configOf: createPgConfig
  }
}

/**
 * Opens the folder, or a database in memory. What is acknowledged survives the end of the process in any way, not the
 * loss of power (PGlite does not sync). Throws where another process uses the folder.
 */
export async function connectEmbedded ({ dbPath }: Embedded = {}): Promise<Connections> {
  const pglite = await loadPglite()
  if (dbPath === undefined) return onDatabase(pglite, await openMemory(pglite), async () => {})
  const folder = resolve(dbPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const unlock = await takeLock(folder)
  try {
    return { ...onDatabase(pglite, await openFolder(pglite, folder), unlock), folder }
  } catch (error) {
    await unlock()
    throw error
  }
}

async function openFolder (pglite: Pglite, folder: string): Promise<PGlite> {
  const data = join(folder, 'data')
  if (!await exists(join(data, 'PG_VERSION'))) await prepareFolder(pglite, folder, data)
  return pglite.create(data)
}

/** The data gets its name when it is complete: a first start that was cut off is begun anew. */
async function prepareFolder (pglite: Pglite, folder: string, data: string): Promise<void> {
  const unfinished = join(folder, 'data.unfinished')
  await rm(unfinished, { recursive: true, force: true })
  const prepared = await preparedData()
  if (prepared !== null) {
    unpack(prepared, unfinished)
  } else {
    const database = await pglite.create(unfinished)
    await savePreparedData(database)
    await database.close()
  }
  await rename(unfinished, data)
}

async function openMemory (pglite: Pglite): Promise<PGlite> {
  const prepared = await preparedData()
  if (prepared !== null) return pglite.create('memory://', { loadDataDir: new Blob([prepared], { type: 'application/x-tar' }) })
  const database = await pglite.create('memory://')
  await savePreparedData(database)
  return database
}

function onDatabase ({ configOf }: Pglite, database: PGlite, closed: () => Promise<void>): Connections {
  const settings = settingsOf(statementTimeoutMs)
  return {
    kind: 'embedded',
    max: 1,
    acquireTimeoutMs,
    pool: new pg.Pool({
      ...configOf(database),
      max: 1,
      connectionTimeoutMillis: acquireTimeoutMs,
      idleTimeoutMillis: 0,
      onConnect: async (client) => {
        await client.query(setSession(settings))
      }
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
