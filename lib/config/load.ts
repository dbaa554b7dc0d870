/** Documents from files. */
import type { Config } from './config.js'
import type { Env } from './environment.js'
import type { ConfigInput } from './schema/root.js'
import { readFile } from 'node:fs/promises'
import { dirname, extname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'
import { checkConfig } from './check.js'
import { ConfigError } from './faults.js'
import { parseJson } from './json.js'

export interface LoadOptions {
  /** The environment, which goes before the `.env` beside the document. Default: the process's. */
  readonly env?: Env | undefined
}

/** Gives a document in a module its type: `export default defineConfig({ ... })`. */
export function defineConfig (document: ConfigInput): ConfigInput {
  return document
}

/**
 * Loads and checks a document: JSON (`.json`, `.jsonc`; comments and trailing commas are allowed) or a module (`.js`,
 * `.mjs`, `.cjs`, and `.ts`, `.mts` where Node runs TypeScript) whose default export is the document. Settings of a `.env`
 * beside it count where the environment does not have them. Throws a ConfigError that holds every fault.
 */
export async function loadConfig (source: string, { env = process.env }: LoadOptions = {}): Promise<Config> {
  const file = resolve(source)
  const document = await readDocument(file, source)
  return checkConfig(document, { env: await withDotEnv(dirname(file), env) })
}

async function readDocument (file: string, source: string): Promise<unknown> {
  switch (extname(file).toLowerCase()) {
    case '.json':
    case '.jsonc': return parseJson(await readText(file, source), source)
    case '.js':
    case '.mjs':
    case '.cjs':
    case '.ts':
    case '.mts': return await importDefault(file, source)
    default: throw unreadable(source, 'expected a file that ends in .json, .jsonc, .js, .mjs, .cjs, .ts or .mts')
  }
}

async function readText (file: string, source: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw unreadable(source, reasonOf(error))
  }
}

async function importDefault (file: string, source: string): Promise<unknown> {
  // A missing file is told apart from a missing import inside of it.
  await readText(file, source)
  let module: Readonly<Record<string, unknown>>
  try {
    module = await import(pathToFileURL(file).href)
  } catch (error) {
    throw unreadable(source, `the module cannot be loaded: ${error instanceof Error ? error.message : String(error)}`, error)
  }
  if (module.default === undefined) throw unreadable(source, 'the module has no default export: expected `export default defineConfig({ ... })`')
  return module.default
}

/** `.env` in the folder under the environment: a setting that is there already keeps its value. */
async function withDotEnv (folder: string, env: Env): Promise<Env> {
  let text: string
  try {
    text = await readFile(join(folder, '.env'), 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return env
    throw unreadable(join(folder, '.env'), reasonOf(error))
  }
  const settings = Object.entries(env).filter(([, value]) => value !== undefined)
  return Object.freeze({ ...parseEnv(text), ...Object.fromEntries(settings) })
}

function reasonOf (error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT': return 'there is no such file'
    case 'EISDIR': return 'it is a folder'
    case 'EACCES': return 'this process may not read it'
    default: return error instanceof Error ? error.message : String(error)
  }
}

function unreadable (source: string, message: string, cause?: unknown): ConfigError {
  const error = new ConfigError([{ pointer: '', location: source, message }])
  error.cause = cause
  return error
}
