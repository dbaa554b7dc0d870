/** The files of a route's form: `multipart` and `request.files`. */
import type { JsonSchema } from '../expressions/types.js'
import type { FileRules } from '../files/rules.js'
import { bytesPerMB } from '../plans/plans.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import { formFilesOf, methodOf } from './route-parts.js'

export interface CompiledFile {
  /** The name of the form part. */
  readonly name: string
  /** Infinity if the route sets no limit. */
  readonly maxBytes: number
  readonly required: boolean
  readonly bucket: string
  /** The accepted types, which are detected from the content. Default: all. */
  readonly types: readonly string[] | undefined
}

const maxFiles = 10 // per form
const partName = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/

/**
 * The files of a route with `multipart`; otherwise null.
 *
 * @param rules null if the server stores no files; undefined if that is not known
 */
export function compileFiles (
  route: Route,
  pointer: string,
  rules: FileRules | null | undefined,
  faults: FaultList
): readonly CompiledFile[] | null {
  if (route.multipart !== true) {
    if (route.request?.files !== undefined) faults.add(`${pointer}/request/files`, 'only a route with `multipart: true` accepts files')
    return null
  }
  checkMultipart(route, pointer, rules, faults)
  return Object.freeze(
    Object.entries(formFilesOf(route)).map(([name, { maxSizeMB, types, required = false, bucket = 'private' }]) => {
      const at = pointerTo(`${pointer}/request/files`, name)
      if (!partName.test(name) || name in Object.prototype) {
        faults.add(at, 'is not a valid file name: expected a letter, then at most 63 of a-z A-Z 0-9 _ -')
      }
      if (route.request?.body !== undefined && Object.hasOwn(route.request.body, name)) {
        faults.add(at, 'is already a field of the body: give the file another name')
      }
      if (rules && !rules.buckets.has(bucket)) {
        faults.add(`${at}/bucket`, `there is no bucket "${bucket}": declare it in \`files.buckets\``, nearest(bucket, rules.buckets))
      }
      return Object.freeze({
        name,
        maxBytes: maxSizeMB === undefined ? Infinity : Math.floor(maxSizeMB * bytesPerMB),
        required,
        bucket,
        types
      })
    })
  )
}

const methods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

function checkMultipart (route: Route, pointer: string, rules: FileRules | null | undefined, faults: FaultList): void {
  const count = Object.keys(formFilesOf(route)).length
  const at = `${pointer}/multipart`
  if (rules === null) {
    faults.add(at, 'the server does not store files: in its document, remove `enabled: false` from `files`, and `"files": false` from `plugins`')
  }
  if (!methods.has(methodOf(route))) faults.add(at, 'a form requires the `method` `post`, `put` or `patch`')
  if (route.webhook !== undefined) faults.add(at, 'a webhook does not accept forms with files: remove `multipart` or `webhook`')
  if (count === 0) {
    faults.add(at, 'the form has no files: declare them in `request.files`, such as `"files": { "avatar": { "required": true } }`')
  }
  if (count > maxFiles) faults.add(`${pointer}/request/files`, `a form can have at most ${maxFiles} files, but this form has ${count}`)
}

/** The form in the documentation: the fields of the body, and a binary string for each file. */
export function formSchema (body: JsonSchema | undefined, files: readonly CompiledFile[]): JsonSchema {
  const { properties = {}, required = [], ...rest } = body ?? {}
  const needed = [...Array.isArray(required) ? required : [], ...files.filter((file) => file.required).map(({ name }) => name)]
  return {
    type: 'object',
    ...rest,
    properties: { ...Object(properties), ...Object.fromEntries(files.map(({ name }) => [name, { type: 'string', format: 'binary' }])) },
    ...needed.length > 0 && { required: needed }
  }
}
