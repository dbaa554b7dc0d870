/** The fields of an upload besides its bytes: name, bucket, entity and metadata. */
import { jsonExcess } from '../../lib/json/bounds.js'
import { NumberTooLongError, parseSent } from '../../lib/json/parse.js'
import { isRecord } from '../../lib/json/plain-value.js'
import { isStorableJson, unstorableText } from '../../lib/json/storable.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { Buckets } from './buckets.js'
import type { FileProperties } from './uploads.js'

export const maxNameLength = 255 // characters
export const maxEntityLength = 200 // characters
export const maxMetadataLength = 8192 // characters of JSON

// eslint-disable-next-line no-control-regex
const control = /[\u0000-\u001f\u007f\p{Surrogate}]/u

/** All fields that an uploader may send, as texts. null is the same as a missing field. */
export interface UploadFields {
  readonly name: string | null | undefined
  readonly bucket?: string | null | undefined
  readonly public?: boolean | undefined
  readonly entityType?: string | null | undefined
  readonly entityId?: string | null | undefined
  /** JSON. */
  readonly metadata?: string | undefined
}

/** Throws `validationFailed` with the name of the field. `file`: the field of the file. */
export function describe (
  { name, bucket, public: isPublic, entityType: givenType, entityId: givenId, metadata }: UploadFields,
  buckets: Buckets,
  file = '/body/file'
): FileProperties {
  const chosen = buckets.get(bucket ?? (isPublic === true ? 'public' : 'private'), '/body/bucket')
  if (isPublic !== undefined && isPublic !== chosen.isPublic) {
    throw invalidInput('/body/public', `must be ${String(chosen.isPublic)}, as for the bucket "${chosen.name}"`, 'const')
  }
  const [entityType, entityId] = [givenType ?? null, givenId ?? null]
  if ((entityType === null) !== (entityId === null)) {
    const missing = entityType === null ? '/body/entityType' : '/body/entityId'
    throw invalidInput(missing, 'is required: send both entityType and entityId', 'required')
  }
  return {
    bucket: chosen,
    name: nameOf(name, file),
    entityType: entityType === null ? null : textOf(entityType, '/body/entityType', maxEntityLength),
    entityId: entityId === null ? null : textOf(entityId, '/body/entityId', maxEntityLength),
    metadata: metadata === undefined ? {} : metadataOf(metadata)
  }
}

/** The field `public`. Throws `validationFailed` for other texts than `true` and `false`. */
export function publicOf (text: string | undefined): boolean | undefined {
  if (text !== undefined && text !== 'true' && text !== 'false') throw invalidInput('/body/public', 'must be true or false', 'type')
  return text === undefined ? undefined : text === 'true'
}

/** Without folders, and in NFC, so that equal names have equal forms. */
function nameOf (path: string | null | undefined, field: string): string {
  const name = path?.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1) ?? ''
  if (name === '' || name === '.' || name === '..') throw invalidInput(field, 'must have a file name', 'required')
  return textOf(name.normalize('NFC'), field, maxNameLength, 'the file name ')
}

function textOf (text: string, path: string, maxLength: number, subject = ''): string {
  if (text === '') throw invalidInput(path, `${subject}must have at least 1 character`, 'minLength')
  if ([...text].length > maxLength) throw invalidInput(path, `${subject}must have at most ${maxLength} characters`, 'maxLength')
  if (control.test(text)) throw invalidInput(path, `${subject}must not contain control characters`, 'pattern')
  return text
}

function metadataOf (text: string): Readonly<Record<string, unknown>> {
  if (text.length > maxMetadataLength) {
    throw invalidInput('/body/metadata', `must have at most ${maxMetadataLength} characters as JSON`, 'maxLength')
  }
  const value = jsonExcess(text) === null ? parsed(text) : undefined
  if (!isRecord(value)) throw invalidInput('/body/metadata', 'must be a JSON object', 'type')
  // The sent text may have escapes of any characters.
  if (!isStorableJson(stringifyJson(value))) throw invalidInput('/body/metadata', unstorableText, 'pattern')
  return value
}

function parsed (text: string): unknown {
  try {
    return parseSent(text)
  } catch (error) {
    if (error instanceof NumberTooLongError) throw invalidInput('/body/metadata', 'has a number that is too long', 'type')
    return undefined
  }
}
