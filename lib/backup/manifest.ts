/** The file beside a dump that describes its content. */
import type { Counts } from './counts.js'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

export const dumpFile = 'database.dump'
const manifestFile = 'manifest.json'

export interface Manifest {
  /** Of tenantry. */
  readonly version: string
  readonly createdAt: string
  /** The major versions of the server and of pg_dump. */
  readonly server: number
  readonly pgDump: number
  /** SHA-256 of the dump, in hexadecimal. */
  readonly sha256: string
  readonly rows: Counts
}

export async function writeManifest (folder: string, manifest: Manifest): Promise<void> {
  await writeFile(join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 })
}

/** Throws if the folder has no complete backup. */
export async function readManifest (folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, manifestFile), 'utf8').catch(() => {
    throw new Error(`${folder} does not contain a complete backup: ${manifestFile} is missing`)
  })
  const manifest: unknown = parsed(text)
  if (!isManifest(manifest)) throw new Error(`${join(folder, manifestFile)} is not the manifest of a backup`)
  if (await hashOf(join(folder, dumpFile)) !== manifest.sha256) {
    throw new Error(`${join(folder, dumpFile)} is damaged: its SHA-256 differs from the manifest`)
  }
  return manifest
}

export async function hashOf (file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function isManifest (value: unknown): value is Manifest {
  if (
    typeof value !== 'object' || value === null || !('rows' in value && 'sha256' in value && 'server' in value && 'pgDump' in value)
  ) { return false }
  const { rows, sha256, server, pgDump } = value
  return typeof sha256 === 'string' && Number.isInteger(server) && Number.isInteger(pgDump) &&
    typeof rows === 'object' && rows !== null && Object.values(rows).every(Number.isInteger)
}
