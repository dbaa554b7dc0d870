/** Checks of the sections `cors` beyond their schema: texts that are origins. */
import type { Cors, TenantCors } from '../../schema/cors.js'
import { faultOfOrigin } from '../../http/origins.js'
import { pointerTo, type FaultList } from '../../schema/faults.js'

export function checkCors (cors: Cors, faults: FaultList): void {
  checkOrigins(cors, faults)
  if (cors.origins === '*' && cors.credentials) {
    faults.add('/cors/credentials', 'browsers reject credentials with `"origins": "*"`: list the origins')
  }
}

export function checkOrigins ({ origins }: Pick<TenantCors, 'origins'>, faults: FaultList): void {
  if (origins === '*') return
  for (const [index, text] of origins.entries()) {
    const fault = faultOfOrigin(text)
    if (fault !== undefined) faults.add(pointerTo('/cors/origins', index), fault)
  }
}
