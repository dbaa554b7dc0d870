/**
 * The prepared data folder: a new database with the system's tables. PGlite needs about 4 s to create an empty cluster, and the
 * migrations take 1 s more; unpacking takes 0.3 s. The file has 2 MB and is in `lib/database` of the package. The build creates
 * it; a working copy creates it at its first start. It is not in a cache folder of the user or the system: it determines the
 * content of a new database, so it must be as trusted as the code.
 */
import { hash, randomBytes } from 'node:crypto'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress, constants } from 'node:zlib'
import { packageRoot } from '../version.js'
import { systemMigrations } from './migrations/system/index.js'
import { connectPglite, loadPglite, type Pglite } from './pglite.js'
import { createPoolEngine } from './pool-engine.js'

/** A cluster fits only the PGlite that created it; a test compares this version with the installed one. */
export const pgliteVersion = '0.5.14'

/** The date of the migrations of the data. */
export const preparedDate = 'epoch'

const folder = new URL('lib/database/', packageRoot)
const prefix = 'embedded-data-'

/** Segments of the write-ahead log of 1 MB instead of 16 MB: half the size of a new database. */
const clusterParameters = ['--wal-segsize=1']

const compression = {
  [constants.BROTLI_PARAM_QUALITY]: 5, // 1 s; 9 takes twice that for 3 %
  [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS // 8 % smaller than with the default
}

const chunkSize = 1024 * 1024 // bytes: in the usual 16 kB, it takes twice as long

/** The name of the file. It depends on the cluster and the migrations, so that an older version does not open it. */
export function preparedFile (): string {
  const statements = systemMigrations.map((migration) => [migration.description, migration.statements({ policies: true })])
  const digest = hash('sha256', JSON.stringify([clusterParameters, statements])).slice(0, 8)
  return `${prefix}${pgliteVersion}-${digest}.tar.br`
}

/** The data as a tar archive. Creates the file if it is missing. */
export async function preparedData (pglite: Pglite): Promise<Buffer> {
  const name = preparedFile()
  const compressed = await readFile(new URL(name, folder)).catch(() => null)
  if (compressed !== null) return promisify(brotliDecompress)(compressed, { chunkSize })
  const data = await makeData(pglite)
  await save(name, data)
  return data
}

/** Creates the file if it is missing. */
export async function prepareData (): Promise<void> {
  await preparedData(await loadPglite())
}

async function makeData (pglite: Pglite): Promise<Buffer> {
  const database = await pglite.create('memory://', { initDbStartParams: clusterParameters })
  const engine = createPoolEngine(connectPglite(pglite, database, async () => {}), {
    schema: 'public',
    wanted: new Map(),
    roleTables: null,
    vectorTable: null
  }, { info () {}, warn () {} })
  try {
    await engine.migration.apply()
    await engine.close()
    await database.exec(`update tenantry.migrations set applied_at = '${preparedDate}'`)
    // New databases are copies of these. The engine creates none, and each of them is as large as its own database.
    await database.exec('update pg_database set datistemplate = false')
    for (const template of ['template0', 'template1']) await database.exec(`drop database ${template}`)
    await database.exec('checkpoint')
    return Buffer.from(await (await database.dumpDataDir('none')).arrayBuffer())
  } finally {
    await database.close()
  }
}

/** Replaces the files of other versions. If the folder of the package is read-only, no file is kept. */
async function save (name: string, data: Buffer): Promise<void> {
  const compressed = await promisify(brotliCompress)(data, { params: compression })
  const draft = new URL(`${name}.${randomBytes(4).toString('hex')}`, folder)
  try {
    await writeFile(draft, compressed)
    await rename(draft, new URL(name, folder))
    for (const file of await readdir(folder)) {
      if (file.startsWith(prefix) && file.endsWith('.br') && file !== name) await rm(new URL(file, folder), { force: true })
    }
  } catch {
    await rm(draft, { force: true })
  }
}
