/** Runs steps of the type `realtime`. Sends the message to the members of the room, at most once per attempt. The result is null. */
import type { Realtime } from '../realtime/types.js'
import { toText } from '../../lib/expressions/template.js'
import { failure } from '../../lib/errors.js'
import { realtimeStep, type StepRunner } from '../../lib/workflows/service-steps.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

export function createRealtimeStep ({ publish }: Pick<Realtime, 'publish'>): StepRunner {
  return {
    ...realtimeStep,
    async run ({ room, event, data }, { tenant }) {
      if (tenant === platformRef) throw failure('tenantRequired')
      publish(tenant, { room: toText(room), ...event !== undefined && { event: toText(event) }, data: data ?? null })
      return null
    }
  }
}
