/**
 * The prepared data folder. PGlite makes an empty cluster in about 4 s, and unpacks one in 1.3 s. The file, 1.6 MB, is in
 * `lib/database` of the package. The build makes it; a working copy makes it at its first start. No cache folder of the
 * user or the system holds it: it decides the content of a new database, so it must be as trusted as the code.
 */
import type { PGlite } from '@electric-sql/pglite'
import { randomBytes } from 'node:crypto'
import { rename, readFile, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress, constants } from 'node:zlib'
import { packageRoot } from '../version.js'

/** A cluster fits the PGlite that made it; a test compares this with the installed one. */
export const pgliteVersion = '0.5.14'

const file = fileURLToPath(new URL(`lib/database/embedded-data-${pgliteVersion}.tar.br`, packageRoot))

// The three databases of a cluster are nearly the same: a window that spans two of them is what makes the file small.
const compression = {
  [constants.BROTLI_PARAM_QUALITY]: 5, // 1 s; 9 takes twice that for 3 %
  [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS
}

const chunkSize = 1024 * 1024 // bytes: in the usual 16 kB, 40 MB take twice as long

/** An empty cluster as a tar archive; null where there is none yet. */
export async function preparedData (): Promise<Buffer | null> {
  const compressed = await readFile(file).catch(() => null)
  return compressed === null ? null : promisify(brotliDecompress)(compressed, { chunkSize })
}

/** Keeps a copy of a fresh cluster for later starts. Where the package's folder is read only, it is not kept. */
export async function savePreparedData (fresh: PGlite): Promise<void> {
  const dump = await fresh.dumpDataDir('none')
  const compressed = await promisify(brotliCompress)(await dump.arrayBuffer(), { params: compression })
  const draft = `${file}.${randomBytes(4).toString('hex')}`
  try {
    await writeFile(draft, compressed)
    await rename(draft, file)
  } catch {
    await rm(draft, { force: true })
  }
}

/** Makes the file where it is missing. */
export async function prepareData (): Promise<void> {
  if (await preparedData() !== null) return
  const { PGlite } = await import('@electric-sql/pglite')
  const database = await PGlite.create('memory://')
  await savePreparedData(database)
  await database.close()
}
