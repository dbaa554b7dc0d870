/** Errors of a plugin's registration, for the author of an app: they name the plugin and its options. */
import { explain, isUnreachable } from '../database/start-failure.js'
import { failure, TenantryError } from '../errors.js'
import { ConfigError } from '../schema/faults.js'
import { SettingError } from '../schema/setting-error.js'

/** The error with the plugin's name, if it is about options or the database; otherwise the error itself. */
export function namingPlugin (plugin: string, error: unknown): unknown {
  const source = `the plugin "${plugin}": `
  if (error instanceof ConfigError) return error.from(source)
  if (error instanceof SettingError) return new Error(source + error.ofOptions, { cause: error })
  if (error instanceof TenantryError && isUnreachable(error)) {
    return failure('databaseUnavailable', { message: source + explain(error), cause: error })
  }
  return error
}

/** The options of plugins that a server registers. */
const documents = new WeakSet<object>()

/** Options from a server's document and settings: errors keep the names of these, and name no plugin. */
export function ofDocument<Options extends object> (options: Options): Options {
  documents.add(options)
  return options
}

export function isOfDocument (options: object): boolean {
  return documents.has(options)
}
