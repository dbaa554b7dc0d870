/** Documents for tests of the configuration. */
import { checkConfig, type Config, ConfigError, type Env, formatFault } from '../../../lib/configuration/index.js'

export const secret = 'a secret of the tests, longer than 32 characters'

/** A valid route with an effect. */
export const route = { path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }

/** Checks the given members in an otherwise valid document. */
export function check (members: Record<string, unknown>, env: Env = {}): Config {
  return checkConfig({ ...members, routes: members.routes ?? [] }, { env })
}

/** The faults of such members, one per line; empty if they are valid. */
export function faultsOf (members: Record<string, unknown>, env?: Env): string[] {
  return faultsOn(() => check(members, env))
}

/** The faults of one or more routes, with tokens configured. */
export function faultsOfRoutes (...routes: Record<string, unknown>[]): string[] {
  return faultsOf({ jwt: { secret }, routes })
}

export function faultsOn (work: () => unknown): string[] {
  try {
    work()
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(formatFault)
  }
}
