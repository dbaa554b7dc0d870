/** Sends the message of a route once the route has done its work. */
import type { FastifyBaseLogger } from 'fastify'
import type { CompiledRouteMessage } from '../../lib/compiler/realtime.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Realtime } from '../realtime/types.js'

/** What the route wrote is committed: a message that cannot be sent is no failure of the request. */
export function sendMessage (
  { make }: CompiledRouteMessage,
  scope: Scope,
  realtime: Pick<Realtime, 'publish'> | null,
  log: FastifyBaseLogger
): void {
  const { tenant } = scope
  if (tenant === null || realtime === null) return
  try {
    realtime.publish(tenant.id, make(scope))
  } catch (err) {
    log.warn({ err, tenant: tenant.id }, 'the message of a route to a room was not sent')
  }
}
