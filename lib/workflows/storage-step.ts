/** The check of steps of the type `storage`. */
import type { MemberFault, StepKind } from './types.js'
import { nearest } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'

interface Params {
  readonly required: readonly string[]
  readonly optional: readonly string[]
}

const operations = {
  put: { required: ['name', 'contentType', 'content'], optional: ['encoding', 'bucket', 'entityType', 'entityId'] },
  get: { required: ['id'], optional: [] },
  delete: { required: ['id'], optional: [] },
  copy: { required: ['id'], optional: [] },
  sign: { required: ['id'], optional: ['expiresIn'] }
} as const satisfies Record<string, Params>
export type StorageOperation = keyof typeof operations

const names = Object.keys(operations)

export function isStorageOperation (name: unknown): name is StorageOperation {
  return typeof name === 'string' && Object.hasOwn(operations, name)
}

export const storageStep = {
  check ({ operation, params = {}, data }: Readonly<Record<string, unknown>>): readonly MemberFault[] {
    const faults = data === undefined ? [] : [{ pointer: '/data', message: 'a step of the kind `storage` takes its values from `params`' }]
    if (!isStorageOperation(operation)) {
      const near = nearest(String(operation), names)
      const suggestion = near === undefined ? '' : `; did you mean "${near}"?`
      return [...faults, { pointer: '/operation', message: `expected ${names.map((name) => `"${name}"`).join(', ')}${suggestion}` }]
    }
    if (!isRecord(params) || Array.isArray(params)) return [...faults, { pointer: '/params', message: 'expected an object' }]
    const { required, optional }: Params = operations[operation]
    const known = [...required, ...optional]
    return [
      ...faults,
      ...Object.keys(params).filter((name) => !known.includes(name))
        .map((name) => ({ pointer: `/params/${name}`, message: `is not used by \`${operation}\`: expected one of ${known.join(', ')}` })),
      ...required.filter((name) => params[name] === undefined)
        .map((name) => ({ pointer: `/params/${name}`, message: `missing: required by \`${operation}\`` }))
    ]
  }
} as const satisfies StepKind
