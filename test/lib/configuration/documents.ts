/** Documents for tests of the configuration. */
import { ConfigError, checkConfig, formatFault, type Config, type Env } from '../../../lib/configuration/index.js'

export const secret = 'a secret of the tests, longer than 32 characters'

/** A route that does something, and nothing that could be wrong. */
export const route = { path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }

/** Checks members of a document that is right otherwise. */
export function check (members: Record<string, unknown>, env: Env = {}): Config {
  return checkConfig({ ...members, routes: members.routes ?? [] }, { env })
}

/** The faults of such members, one a line; none where they are accepted. */
export function faultsOf (members: Record<string, unknown>, env?: Env): string[] {
  return faultsOn(() => check(members, env))
}

/** The faults of one route, or of several, with tokens configured. */
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
