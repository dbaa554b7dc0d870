/** The allowed rooms of a document, and their requirements for callers. */
import type { RealtimeRoom } from '../schema/realtime.js'
import { roomName } from './messages.js'

const name = new RegExp(roomName.pattern)

export const isRoomName = (text: string): boolean => name.test(text)

/** The place where a document must not use secrets. */
export const visibleMessage = 'a message of a room, which is visible to its members'

type RoomRule = Required<RealtimeRoom>

/** The rule of a room; null if the room is not allowed. */
export type RoomRules = (room: string) => RoomRule | null

const open: RoomRule = { join: [], publish: [] }

/** If the document declares no rooms, all are open. */
export function createRoomRules (rooms: Readonly<Record<string, RealtimeRoom>> | undefined): RoomRules {
  if (rooms === undefined) return () => open
  const rules = Object.entries(rooms).map(([pattern, { join = [], publish = [] }]) => ({
    name: pattern.endsWith('*') ? pattern.slice(0, -1) : pattern,
    isPrefix: pattern.endsWith('*'),
    rule: { join, publish }
  }))
  return (room) => rules.find(({ name, isPrefix }) => isPrefix ? room.startsWith(name) : room === name)?.rule ?? null
}
