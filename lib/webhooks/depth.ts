/**
 * The depth of a request: the number of webhooks, one after the other, that led to it. A webhook that starts itself again, by its events
 * or calls, would never end. Only signed requests have a depth, so that a tenant's users cannot keep events from its webhooks.
 */
import type { IncomingHttpHeaders } from 'node:http'

export const depthHeader = 'tenantry-depth'
export const maxDepth = 10

/** The depth of a signed request: its sender tells how many webhooks led to it. */
export function depthOf (headers: IncomingHttpHeaders): number {
  const sent = headers[depthHeader]
  return typeof sent === 'string' && /^\d{1,2}$/.test(sent) ? Math.max(1, Number(sent)) : 1
}
