/** Compiles the message that a route sends to a room. */
import { compileExpansionGuard } from '../expressions/expansion-guard.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue, toText } from '../expressions/template.js'
import { hasTemplate } from '../expressions/template-parser.js'
import type { Reference, Scope } from '../expressions/types.js'
import { isRoomName, visibleMessage } from '../realtime/rooms.js'
import type { Route } from '../schema/route.js'
import { methodOf } from './route-parts.js'

export interface RouteMessage {
  readonly room: string
  readonly event?: string
  readonly data: unknown
}

export interface CompiledRouteMessage {
  /** Its location in the document, or within the route, see `Origin.placeOf`. */
  readonly pointer: string
  readonly make: (scope: Scope) => RouteMessage
  readonly references: readonly Reference[]
}

/**
 * Compiles a route's `realtime`; null if it has none.
 *
 * @param canSend whether the document enables realtime; undefined if that is not known
 */
export function compileRouteMessage (
  route: Route,
  pointer: string,
  context: TemplateContext,
  canSend: boolean | undefined
): CompiledRouteMessage | null {
  const { realtime } = route
  if (realtime === undefined) return null
  const { faults } = context
  const at = `${pointer}/realtime`
  if (methodOf(route) === 'GET') faults.add(at, 'a `get` route cannot send a message: use another method')
  if (route.workflow !== undefined) faults.add(at, 'the route runs a workflow: send the message in a step of the type `realtime`')
  if (canSend === false) faults.add(at, 'the document disables realtime')
  if (!hasTemplate(realtime.room) && !isRoomName(realtime.room)) {
    faults.add(`${at}/room`, 'is not a valid room name: expected 1 to 128 of A-Z a-z 0-9 _ . : @ / -')
  }
  const templates: TemplateContext = { ...context, secretsRefusedIn: visibleMessage }
  const room = compileValue(realtime.room, `${at}/room`, templates)
  const event = realtime.event === undefined ? null : compileValue(realtime.event, `${at}/event`, templates)
  const data = compileValue(realtime.data, `${at}/data`, templates)
  const expansionGuard = compileExpansionGuard(realtime, templates)
  return Object.freeze({
    pointer: at,
    make (scope: Scope) {
      expansionGuard?.(scope, Infinity)
      return {
        room: toText(room.evaluate(scope)),
        ...event !== null && { event: toText(event.evaluate(scope)) },
        data: data.evaluate(scope) ?? null
      }
    },
    references: Object.freeze([...room.references, ...event?.references ?? [], ...data.references])
  })
}
