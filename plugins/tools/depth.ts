/** The depth of an MCP message within calls of tools, as its sender gives it in `_meta`. */
import { isRecord } from '../../lib/json/plain-value.js'

export const depthMember = 'tenantry/toolDepth'

const max = 100

/** 0 for a message without a depth. A caller that sets one only reduces its own nested calls. */
export function depthOf (message: unknown): number {
  const params = isRecord(message) ? message['params'] : undefined
  const meta = isRecord(params) ? params['_meta'] : undefined
  const depth = isRecord(meta) ? meta[depthMember] : undefined
  return typeof depth === 'number' && Number.isSafeInteger(depth) && depth >= 0 ? Math.min(depth, max) : 0
}
