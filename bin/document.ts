/** Finds and loads the document of a command. */
import { existsSync } from 'node:fs'
import type { Config, Env } from '../lib/configuration/index.js'
import { loadAndCheck } from '../lib/configuration/load.js'
import { CommandError } from './failure.js'

/** The default paths in the working folder. */
const names = ['tenantry.json', 'tenantry.jsonc', 'tenantry.js', 'tenantry.ts']

/** The given path, or the document of the working folder; undefined without one. */
export function findDocument (named: string | undefined): string | undefined {
  return named ?? names.find(existsSync)
}

/** The given path, or the document of the working folder. Throws without one. */
export function requireDocument (named: string | undefined): string {
  const path = findDocument(named)
  if (path === undefined) {
    throw new CommandError(
      `no document: there is no ${names.slice(0, -1).join(', ')} or ${names.at(-1)} in this folder: give the path of one, or write a first project with "tenantry init my-api"`
    )
  }
  return path
}

/** Loads and checks the document; throws a ConfigError with its faults. */
export async function loadDocument (named: string | undefined, env: Env, declaredTables = false): Promise<Config> {
  return await loadAndCheck(requireDocument(named), { env, declaredTables })
}
