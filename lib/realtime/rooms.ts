/** The rooms that the document allows, and their requirements of callers. */
import type { RealtimeRoom } from '../schema/realtime.js'

const name = /^[\w.:@/-]{1,128}$/

export const isRoomName = (text: string): boolean => name.test(text)

export interface RoomRule {
  readonly join: readonly string[]
  readonly publish: readonly string[]
}

const open: RoomRule = Object.freeze({ join: Object.freeze([]), publish: Object.freeze([]) })

/** The rule of a room; null where there may be no room of the name. Without rooms in the document any is open. */
export function createRoomRules (rooms: Readonly<Record<string, RealtimeRoom>> | undefined): (room: string) => RoomRule | null {
  if (rooms === undefined) return () => open
  const rules = Object.entries(rooms).map(([pattern, { join = [], publish = [] }]) => ({
    name: pattern.endsWith('*') ? pattern.slice(0, -1) : pattern,
    isPrefix: pattern.endsWith('*'),
    rule: { join, publish }
  }))
  return (room) => rules.find(({ name, isPrefix }) => isPrefix ? room.startsWith(name) : room === name)?.rule ?? null
}
