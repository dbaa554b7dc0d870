/** Background jobs (DESIGN 9). */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

export const Queue = Section({
  workers: Type.Optional(Type.Integer({ minimum: 0, maximum: 100, default: 4, description: 'Jobs that this process runs at a time. 0: it only sends them, and others run them.' }))
}, { default: {}, description: 'Background jobs.' })
export type Queue = Filled<Static<typeof Queue>, 'workers'>
