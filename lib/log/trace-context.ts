/** The trace of a request (W3C Trace Context, level 1), for the log and for the services that are called. No spans are recorded. */
import type { IncomingHttpHeaders } from 'node:http'

const maxState = 512 // characters of `tracestate`: the length that every receiver must accept
const maxMembers = 32

/**
 * Version, trace, parent and flags. No id is all zeroes, and no version is `ff`. Text behind the flags belongs to later versions; 00 has
 * none. Node joins two headers to an invalid one.
 */
const parentForm = /^(?!ff|00-.{52}.)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
const memberForm = /^[0-9a-z][0-9a-z_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

export interface TraceContext {
  readonly traceparent: string
  /** Only where it is valid. */
  readonly tracestate?: string
}

type TraceHeaders = Pick<IncomingHttpHeaders, string>

/** null without a valid trace. An invalid or too long `tracestate` is dropped. */
export function traceOf (headers: TraceHeaders): TraceContext | null {
  const traceparent = parentOf(headers)
  if (traceparent === null) return null
  const { tracestate } = headers
  return typeof tracestate === 'string' && isState(tracestate) ? { traceparent, tracestate } : { traceparent }
}

/** As version 00. A later version has the same ids and the sampling flag. */
export function parentOf ({ traceparent }: TraceHeaders): string | null {
  const parsed = typeof traceparent === 'string' ? parentForm.exec(traceparent) : null
  if (parsed === null) return null
  const [whole, ids, flags = ''] = parsed
  return whole.startsWith('00') ? whole : `00-${ids}-0${Number.parseInt(flags, 16) & 1}`
}

/** The id of the trace, 32 hexadecimal digits. */
export function traceIdOf (traceparent: string): string {
  return traceparent.slice(3, 35)
}

/** A list of members with distinct names, some of which may be empty. */
function isState (text: string): boolean {
  if (text.length > maxState) return false
  const members = text.split(',').map((member) => member.replace(/^[ \t]+|[ \t]+$/g, '')).filter((member) => member !== '')
  if (members.length === 0 || members.length > maxMembers || !members.every((member) => memberForm.test(member))) return false
  return new Set(members.map((member) => member.slice(0, member.indexOf('=')))).size === members.length
}
