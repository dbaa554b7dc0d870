/** Background jobs. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

/** Jobs that a process runs at a time at most. */
export const maxWorkers = 100

export const Queue = Section({
  workers: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: maxWorkers,
      default: 4,
      description: 'Jobs that this process runs at a time. 0: it only sends them, and others run them.'
    })
  ),
  maxWaitingPerTenant: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000_000,
      default: 100_000,
      description:
        'Jobs of one tenant that may wait, of all names: beyond these, more are answered with 429. They are counted now and then, so that it may be exceeded a little.'
    })
  )
}, { default: {}, description: 'Background jobs.' })
export type Queue = Filled<Static<typeof Queue>, 'workers' | 'maxWaitingPerTenant'>
