/** Decodes a token (RFC 7515, 7.1) without verifying its signature. */
import { isRecord } from '../../../lib/json/plain-value.js'

const parts = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/

export interface ReadToken {
  readonly header: Readonly<Record<string, unknown>>
  readonly payload: Readonly<Record<string, unknown>>
  /** The signed part. */
  readonly input: string
  readonly signature: Buffer
}

/** null for an invalid token. */
export function readToken (token: string): ReadToken | null {
  const [, header = '', payload = '', signature = ''] = parts.exec(token) ?? []
  const read = { header: decoded(header), payload: decoded(payload) }
  if (!isRecord(read.header) || !isRecord(read.payload)) return null
  return { header: read.header, payload: read.payload, input: `${header}.${payload}`, signature: Buffer.from(signature, 'base64url') }
}

function decoded (part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString())
  } catch {
    return undefined
  }
}
