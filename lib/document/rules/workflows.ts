/** Checks of the workflows of a document beyond their schema. */
import type { FaultList } from '../../schema/faults.js'
import type { Schedule, Workflow } from '../../schema/workflow.js'
import type { Entry } from '../sections.js'
import { leastMinutes, leastTenantMinutes, parseSchedule } from '../../time/schedule.js'

const maxSchedules = { platform: 100, tenant: 20 } // of one document

/** Workflows have distinct ids, and schedules have times. */
export function checkWorkflows (
  workflows: readonly Entry<Workflow>[],
  faults: FaultList,
  origin: keyof typeof maxSchedules = 'platform'
): void {
  const seen = new Map<string, string>()
  let schedules = 0
  for (const { pointer, value: { id, schedule } } of workflows) {
    const first = seen.get(id)
    if (first === undefined) seen.set(id, pointer)
    else faults.add(`${pointer}/id`, `the workflow at ${first} already has the id "${id}"`)
    if (schedule === undefined) continue
    schedules++
    if (schedules === maxSchedules[origin] + 1) {
      faults.add(`${pointer}/schedule`, `a document can have at most ${maxSchedules[origin]} workflows with a schedule`)
    } else if (schedules <= maxSchedules[origin]) checkSchedule(schedule, `${pointer}/schedule`, origin, faults)
  }
}

function checkSchedule (schedule: Schedule, pointer: string, origin: keyof typeof maxSchedules, faults: FaultList): void {
  const read = parseSchedule(schedule)
  if ('reason' in read) return faults.add(`${pointer}/${read.at}`, read.reason)
  const least = leastMinutes(schedule.cron)
  if (origin === 'tenant' && least < leastTenantMinutes) {
    faults.add(`${pointer}/cron`, `runs of a tenant must be at least ${leastTenantMinutes} minutes apart, but these are ${least}`)
  }
}
