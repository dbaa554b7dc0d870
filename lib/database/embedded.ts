/** The embedded engine: PostgreSQL in this process, in a folder or in memory. */
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'
import type { Embedded } from '../schema/database.js'
import type { Connections } from './connections.js'
import { watchDiskRoom } from './disk-room.js'
import { unpack } from './embedded-archive.js'
import { takeLock } from './embedded-lock.js'
import { preparedData, preparedDate } from './embedded-prepared.js'
import type { EngineLog } from './engine.js'
import { connectPglite, loadPglite, type Pglite } from './pglite.js'

/** A database in memory has its files there too: the usual cache of 128 MB would hold them twice, and takes 0.1 s to create. */
const memorySettings = ['shared_buffers = 16MB']

/** Opens the folder, or a database in memory. Writes survive any end of the process, not a power loss. Throws if the folder is in use. */
export async function connectEmbedded ({ dbPath }: Embedded = {}, log: EngineLog): Promise<Connections> {
  const pglite = await loadPglite()
  if (dbPath === undefined) {
    const database = await openMemory(pglite)
    return connectPglite(pglite, database, () => database.close())
  }
  const folder = resolve(dbPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const unlock = await takeLock(folder, { log })
  try {
    const database = await openFolder(pglite, folder)
    const connections = connectPglite(pglite, database, async () => {
      endWatch()
      await database.close()
      await unlock()
    })
    const endWatch = watchDiskRoom(folder, connections.pool, log)
    return { ...connections, folder }
  } catch (error) {
    await unlock()
    throw error
  }
}

async function openMemory (pglite: Pglite): Promise<PGlite> {
  const data = new Blob([await preparedData(pglite)], { type: 'application/x-tar' })
  return begin(await pglite.create('memory://', { loadDataDir: data, postgresqlconf: memorySettings }))
}

async function openFolder (pglite: Pglite, folder: string): Promise<PGlite> {
  const data = join(folder, 'data')
  if (!existsSync(join(data, 'PG_VERSION'))) {
    // The data gets its final name when it is complete, so that an interrupted first start begins again.
    const unfinished = join(folder, 'data.unfinished')
    await rm(unfinished, { recursive: true, force: true })
    unpack(await preparedData(pglite), unfinished)
    await rename(unfinished, data)
  }
  return begin(await pglite.create(data))
}

/** Dates the migrations of prepared data at their first start: servers distinguish databases by these dates. */
async function begin (database: PGlite): Promise<PGlite> {
  await database.exec(`do $$ begin
    if to_regclass('tenantry.migrations') is not null then
      update tenantry.migrations set applied_at = now() where applied_at = '${preparedDate}';
    end if;
  end $$`)
  return database
}
