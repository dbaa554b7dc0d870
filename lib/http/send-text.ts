import type { FastifyReply } from 'fastify'

/** Sends a text as it is. The serializer would parse it, and change large numbers of a row. */
export function sendText (reply: FastifyReply, text: string, contentType = 'application/json; charset=utf-8'): FastifyReply {
  return reply.header('content-type', contentType).send(text)
}
