/** Checks of the section `egress` beyond its schema. */
import type { Egress } from '../../schema/egress.js'
import { faultOfException } from '../../http/egress.js'
import { pointerTo, type FaultList } from '../../schema/faults.js'

export function checkEgress ({ allow }: Egress, faults: FaultList): void {
  for (const [index, text] of allow.entries()) {
    const fault = faultOfException(text)
    if (fault !== undefined) faults.add(pointerTo('/egress/allow', index), fault)
  }
}
