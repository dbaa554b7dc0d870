/** Detects callers that leave before their response is complete, or do not read it. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { callerLeft } from '../database/failures.js'
import { isRecord } from '../json/plain-value.js'
import type { RouteReply } from './route-reply.js'

/** Aborts when the caller leaves. */
export function leftOf ({ raw }: Pick<RouteReply, 'raw'>): AbortSignal {
  const left = new AbortController()
  const leave = () => {
    if (!raw.writableFinished) left.abort(callerLeft())
  }
  if (raw.destroyed) leave()
  else raw.once('close', leave)
  return left.signal
}

const checks = 4 // of the progress, within the time limit

/** Closes the connection when bytes of the response wait, and the system takes none for that long. */
export function limitWriting ({ raw }: FastifyReply, ms: number): void {
  if (raw.destroyed) return
  if (raw.socket === null) raw.once('socket', (socket: Socket) => limit(raw, socket, ms))
  else limit(raw, raw.socket, ms)
}

/** A timeout of the socket would also count received bytes as progress: callers could send some, and never read. */
function limit (raw: ServerResponse, socket: Socket, ms: number): void {
  let before = takenBytes(socket)
  let idle = 0
  const timer = setInterval(() => {
    const taken = takenBytes(socket)
    idle = raw.writableLength > 0 && taken === before ? idle + 1 : 0
    before = taken
    if (idle === checks) socket.destroy()
  }, ms / checks).unref()
  raw.once('close', () => clearInterval(timer))
}

/** Bytes of the connection that the system has taken. `bytesWritten` of the socket also counts those of a write in progress. */
function takenBytes (socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle')
  const { bytesWritten = socket.bytesWritten, writeQueueSize = 0 }: Record<string, unknown> = isRecord(handle) ? handle : {}
  return Number(bytesWritten) - Number(writeQueueSize)
}
