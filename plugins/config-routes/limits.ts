/** The use of a limited resource by a request: taken before its work, given back where that fails. */
import type { RouteCall } from '../../lib/http/route-exchange.js'
import type { CompiledResourceLimit } from '../../lib/compiler/resource-limit.js'
import type { Scope } from '../../lib/expressions/types.js'
import { limitedUser, type ResourceLimits } from '../resource-limits/service.js'

/** Throws `resourceLimit` where the caller's limit has no room, and then does no work. */
export async function withinLimit (
  { resource, metric, amount }: CompiledResourceLimit,
  limits: ResourceLimits,
  request: RouteCall,
  scope: Scope,
  work: () => Promise<string>
): Promise<string> {
  const { give } = await limits.take(limitedUser(request), { resource, metric, amount: amount(scope) })
  try {
    return await work()
  } catch (error) {
    // A further try finds the same limits.
    await give()
    throw error
  }
}
