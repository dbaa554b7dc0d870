/** The depth of a message of the Model Context Protocol within calls of tools: its sender names it in `_meta`. */
import { isRecord } from '../../lib/json/plain-value.js'

export const depthMember = 'tenantry/toolDepth'

const max = 100

/** 0 for a message that does not say. A caller that sets it only has fewer calls within its own. */
export function depthOf (message: unknown): number {
  const params = isRecord(message) ? message['params'] : undefined
  const meta = isRecord(params) ? params['_meta'] : undefined
  const depth = isRecord(meta) ? meta[depthMember] : undefined
  return typeof depth === 'number' && Number.isSafeInteger(depth) && depth >= 0 ? Math.min(depth, max) : 0
}
