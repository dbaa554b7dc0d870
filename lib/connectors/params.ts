/** Checks the params of a call against its action. */
import type { TSchema } from 'typebox'
import type { TemplateContext } from '../expressions/reference.js'
import type { Reference } from '../expressions/types.js'
import { hasTemplate } from '../expressions/template-parser.js'
import { nearest, pointerTo } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { lazyValidator, errorDetails, validationError } from '../validation/validator.js'
import { invalidInput } from '../validation/detail.js'

export interface ParamsCheck {
  /** Adds a fault for everything that is wrong in the declared params for all values of their templates. */
  readonly declared: (params: Readonly<Record<string, unknown>>, pointer: string, context: TemplateContext) => void
  /** Throws `validationFailed`, with paths below `/params`. */
  readonly evaluated: (params: Readonly<Record<string, unknown>>) => void
}

export function schemaCheck (schema: TSchema): ParamsCheck {
  const validate = lazyValidator(schema, 'body')
  const errorsOf = (params: Readonly<Record<string, unknown>>) => validate(params) ?? []
  return {
    declared (params, pointer, { faults }) {
      const errors = errorsOf(params).filter(({ instancePath, keyword, schemaPath }) => {
        const value = valueAt(params, instancePath)
        // A template is checked once its value is known.
        if (instancePath === '') return true
        if (typeof value === 'string') return !hasTemplate(value)
        return !((keyword === 'anyOf' || schemaPath.includes('/anyOf/')) && holdsTemplate(value))
      })
      for (const { path, message } of errorDetails(errors, 'params')) faults.add(pointer + path.slice('/params'.length), message)
    },
    evaluated (params) {
      const errors = errorsOf(params)
      if (errors.length > 0) throw validationError(errors, 'params')
    }
  }
}

/** The check without a schema: an action accepts the params that its templates read; those in the address are required. */
export function readCheck (references: readonly Reference[], required: readonly Reference[]): ParamsCheck {
  const names = new Set(namesIn(references))
  // `{{params}}` accepts any params.
  const any = references.some(({ source, path }) => source === 'params' && path.length === 0)
  const needed = new Set(namesIn(required))
  const check = (
    params: Readonly<Record<string, unknown>>,
    wrong: (name: string, message: string, keyword: string, suggestion?: string) => void
  ) => {
    for (const name of needed) if (!Object.hasOwn(params, name)) wrong(name, 'is required, because it is part of the URL', 'required')
    if (any) return
    for (const name of Object.keys(params)) {
      if (!names.has(name)) wrong(name, 'is not used by any template of the action', 'additionalProperties', nearest(name, names))
    }
  }
  return {
    declared: (params, pointer, { faults }) =>
      check(params, (name, message, _keyword, suggestion) => faults.add(pointerTo(pointer, name), message, suggestion)),
    evaluated: (params) =>
      check(params, (name, message, keyword) => {
        throw invalidInput(pointerTo('/params', name.slice(0, 100)), message, keyword)
      })
  }
}

function namesIn (references: readonly Reference[]): string[] {
  return references.flatMap(({ source, path: [name] }) => source === 'params' && name !== undefined ? [String(name)] : [])
}

function valueAt (value: unknown, pointer: string): unknown {
  let found = value
  for (const name of pointer.split('/').slice(1)) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~')
    found = (isRecord(found) || Array.isArray(found)) && Object.hasOwn(found, key) ? Reflect.get(found, key) : undefined
  }
  return found
}

function holdsTemplate (value: unknown): boolean {
  if (typeof value === 'string') return hasTemplate(value)
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsTemplate)
}
