/** Ids of requests: the caller's `x-request-id` if it is a plain word, otherwise one that is unique across processes. */
import type { IncomingMessage } from 'node:http'
import { randomBytes } from 'node:crypto'

const plainWord = /^[\w.-]{1,128}$/

export function requestIds (): (request: Pick<IncomingMessage, 'headers'>) => string {
  const prefix = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && plainWord.test(given) ? given : `${prefix}-${(++count).toString(36)}`
  }
}
