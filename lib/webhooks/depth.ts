/**
 * The depth of a delivery, or of a call to another service: the number of webhooks, one after the other, that led to it. A webhook that
 * starts itself again, by its events or calls, would never end. Only signed requests have a depth, so that a tenant's users cannot keep
 * events from its webhooks.
 */
import type { IncomingHttpHeaders } from 'node:http'

export const depthHeader = 'tenantry-depth'
export const maxDepth = 10

export function depthOf ({ signed = false, headers }: { readonly signed?: boolean, readonly headers: IncomingHttpHeaders }): number {
  const sent = signed ? headers[depthHeader] : undefined
  return typeof sent === 'string' && /^\d{1,2}$/.test(sent) ? Number(sent) : 0
}
