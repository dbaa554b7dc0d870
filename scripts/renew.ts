/** Keeps a generated file up to date: writes it, or with `--check` fails if it is stale. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** `path` is relative to the root of the project. */
export function renew (path: string, text: string): void {
  const file = fileURLToPath(new URL(`../${path}`, import.meta.url))
  if (!process.argv.includes('--check')) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  } else if (read(file) !== text) {
    console.error(`${path} is not what its source says`)
    process.exitCode = 1
  }
}

function read (file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
