/** The check of steps of the type `realtime`. */
import type { StepKind } from './types.js'
import { hasTemplate } from '../expressions/template-parser.js'
import { isRoomName } from '../realtime/rooms.js'

export const realtimeStep: StepKind = {
  check ({ room, params, operation, prompt, model, responseFormat }) {
    const unknown = Object.entries({ params, operation, prompt, model, responseFormat }).filter(([, value]) => value !== undefined)
    return [
      ...unknown.map(([name]) => ({ pointer: `/${name}`, message: 'a step of the kind `realtime` has `room`, `event` and `data`' })),
      ...typeof room === 'string' && (hasTemplate(room) || isRoomName(room))
        ? []
        : [{ pointer: '/room', message: 'is not a valid room name: expected 1 to 128 of A-Z a-z 0-9 _ . : @ / -' }]
    ]
  }
}
