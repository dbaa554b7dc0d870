/** `.env`: settings of a folder. */
import type { Env } from './environment.js'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { unreadable } from './unreadable.js'

/** The environment with the settings of the folder's `.env` under it: one that is there already keeps its value. */
export async function withDotEnv (folder: string, env: Env): Promise<Env> {
  const file = join(folder, '.env')
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return env
    throw unreadable(file, error)
  }
  const settings = Object.entries(env).filter(([, value]) => value !== undefined)
  return Object.freeze({ ...parseEnv(text), ...Object.fromEntries(settings) })
}
