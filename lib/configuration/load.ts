/** Loads documents from files. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Config } from '../document/config.js'
import { unreadable, withDotEnv } from '../document/dot-env.js'
import { parseJson } from '../document/json.js'
import { codeOf, messageOf } from '../errors.js'
import type { Env } from '../expressions/environment.js'
import { isRecord } from '../json/plain-value.js'
import type { ConfigInput } from '../schema/root.js'
import { checkConfig, type CheckOptions } from './check.js'

export interface LoadOptions {
  /** The environment, which overrides the `.env` beside the document. Default: the process's. */
  readonly env?: Env | undefined
}

/** Types a document in a module: `export default defineConfig({ ... })`. */
export function defineConfig (document: ConfigInput): ConfigInput {
  return document
}

/**
 * Loads and checks a document. The source is JSON (`.json`, `.jsonc`; comments and trailing commas are allowed) or a module (`.js`, `.mjs`,
 * `.cjs`, `.ts`, `.mts`) with the document as its default export. Node.js before 22.18 needs the package tsx for TypeScript. A `.env`
 * beside the document provides settings that the environment lacks. Throws a ConfigError as checkConfig does.
 */
export async function loadConfig (source: string, { env }: LoadOptions = {}): Promise<Config> {
  return await loadAndCheck(source, { env })
}

/** As `loadConfig`, with all options of the check. */
export async function loadAndCheck (source: string, options: CheckOptions): Promise<Config> {
  return await checkDocument(await readDocument(source), source, options)
}

/** Checks a document that was read from a file. */
export async function checkDocument (document: unknown, source: string, { env = process.env, ...options }: CheckOptions): Promise<Config> {
  return checkConfig(document, { ...options, env: await withDotEnv(dirname(resolve(source)), env) })
}

/** Node.js 22.18 and later can import TypeScript. Earlier versions need the package tsx, installed beside the document. */
async function importModule (file: string): Promise<Readonly<Record<string, unknown>>> {
  const url = pathToFileURL(file)
  try {
    return await import(url.href)
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNKNOWN_FILE_EXTENSION') throw error
    let loader: string
    try {
      loader = createRequire(file).resolve('tsx')
    } catch (cause) {
      throw new Error(`Node.js ${process.version} cannot load TypeScript: run "npm i -D tsx", or use Node.js 22.18 or later`, { cause })
    }
    // Registers tsx for the rest of the process. Node caches the failed import under its URL.
    await import(pathToFileURL(loader).href)
    url.searchParams.set('by', 'tsx')
    return await import(url.href)
  }
}

/** The document of a file, as written. A module is evaluated once per thread. */
export async function readDocument (source: string): Promise<unknown> {
  const file = resolve(source)
  switch (extname(file).toLowerCase()) {
    case '.json':
    case '.jsonc':
      return parseJson(await readText(file, source), source)
    case '.js':
    case '.mjs':
    case '.cjs':
    case '.ts':
    case '.mts':
      return await importDefault(file, source)
    default:
      throw unreadable(source, 'expected a file that ends in .json, .jsonc, .js, .mjs, .cjs, .ts or .mts')
  }
}

async function readText (file: string, source: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw unreadable(source, error)
  }
}

async function importDefault (file: string, source: string): Promise<unknown> {
  // Distinguishes a missing file from a missing import in it.
  await readText(file, source)
  let module: Readonly<Record<string, unknown>>
  try {
    module = await importModule(file)
  } catch (error) {
    throw unreadable(source, `the module cannot be loaded: ${messageOf(error)}`)
  }
  if (module.default === undefined) {
    throw unreadable(source, 'the module has no default export: expected `export default defineConfig({ ... })`')
  }
  // In a folder without "type": "module", a module is compiled to CommonJS.
  const { default: document } = module
  return isRecord(document) && document['__esModule'] === true ? document['default'] : document
}
