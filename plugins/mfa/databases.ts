/** The databases whose users may have second factors, for the plugin mfa in any context of an app. */
import type { FastifyInstance } from 'fastify'

const databases = new WeakSet<object>()

export function markSecondFactors (db: FastifyInstance['db']): void {
  databases.add(db)
}

export function hasSecondFactors (db: FastifyInstance['db']): boolean {
  return databases.has(db)
}
