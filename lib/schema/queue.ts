/** Background jobs. */
import type { Static } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

/** The highest number of places for jobs in a process. */
export const maxWorkers = 100

export const Queue = ClosedObject({
  workers: Optional.Integer(
    'The number of jobs that this process runs at the same time. Jobs that run for more than 30 seconds do not count, up to four times the number in all. 0: it only sends jobs, and other processes run them.',
    { minimum: 0, maximum: maxWorkers, default: 4 }
  ),
  maxWaitingPerTenant: Optional.Integer(
    'The maximum number of waiting jobs per tenant, over all names. Further jobs are rejected with 429. Jobs are counted from time to time, so the limit can be exceeded slightly.',
    { minimum: 1, maximum: 10_000_000, default: 100_000 }
  )
}, { default: {}, description: 'Background jobs.' })
export type Queue = Filled<Static<typeof Queue>, 'workers' | 'maxWaitingPerTenant'>
