/** Errors as lines for the user of the command. */
import { ConfigError, formatFault } from '../lib/configuration/index.js'
import { addressMember, explain, remedyOf } from '../lib/database/start-failure.js'
import { TenantryError } from '../lib/errors.js'
import { SettingError } from '../lib/schema/setting-error.js'
import { UsageError } from './command.js'

/** Faults of a document have a line each. Unexpected errors have their stack. */
export function linesOf (error: unknown): string[] {
  if (error instanceof ConfigError) return error.faults.map(formatFault)
  if (error instanceof UsageError || error instanceof CommandError) return error.message.split('\n')
  if (!(error instanceof Error)) return [String(error)]
  if (error instanceof TenantryError) return [explain(error, addressMember)]
  const remedy = remedyOf(error, addressMember)
  return remedy.length > 0 || isForeseen(error) ? [[error.message, ...remedy].join(': ')] : (error.stack ?? error.message).split('\n')
}

/** The command cannot do its work; the message says why. */
export class CommandError extends Error {}

/** Errors at start that are meant for the operator: plain errors of the library, and those of settings. */
function isForeseen (error: Error): boolean {
  return error.constructor === Error || error instanceof SettingError
}
