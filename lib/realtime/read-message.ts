/** Reads a client's message. */
import { failure, type TenantryError } from '../errors.js'
import { jsonExcess } from '../json/bounds.js'
import { parseSent } from '../json/parse.js'
import { isRecord } from '../json/plain-value.js'
import { errorDetails, lazyValidator, type PartValidator } from '../validation/validator.js'
import { type ClientMessage, clientMessages, maxRefLength, type Ref } from './messages.js'

export type ReadResult = { readonly message: ClientMessage } | { readonly error: TenantryError, readonly ref: Ref | undefined }

const validators: ReadonlyMap<string, PartValidator> = new Map(
  Object.entries(clientMessages).map(([type, schema]) => [type, lazyValidator(schema, 'body')])
)
const types = [...validators.keys()]

export function readMessage (text: string): ReadResult {
  const excess = jsonExcess(text)
  if (excess !== null) return refuse(`The JSON of the message ${excess}`)
  let value: unknown
  try {
    value = parseSent(text)
  } catch {
    return refuse('The message is not JSON')
  }
  if (!isRecord(value)) return refuse('The message is not an object')
  const ref = refOf(value['ref'])
  const { type } = value
  const validate = typeof type === 'string' ? validators.get(type) : undefined
  if (validate === undefined) return refuse(`The type of the message is unknown: expected one of ${types.join(', ')}`, ref)
  const errors = validate(value)
  if (errors !== null) {
    const details = errorDetails(errors, 'body').map((detail) => ({ ...detail, path: detail.path.slice('/body'.length) }))
    return { error: failure('validationFailed', { extras: { details } }), ref }
  }
  return isMessage(value) ? { message: value } : refuse('The message is invalid', ref)
}

function refuse (message: string, ref?: Ref): ReadResult {
  return { error: failure('badRequest', { message }), ref }
}

function refOf (value: unknown): Ref | undefined {
  return (typeof value === 'string' && value.length <= maxRefLength) || Number.isSafeInteger(value) ? value as Ref : undefined
}

/** The schema has checked the message. */
function isMessage (value: unknown): value is ClientMessage {
  return isRecord(value) && types.some((type) => type === value['type'])
}
