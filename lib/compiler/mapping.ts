/** A value with templates, written as JSON text: what is constant in it is prepared once. */
import type { Scope } from '../expressions/types.js'
import type { TemplateContext } from '../expressions/reference.js'
import { FaultList } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { toJsonText } from '../json/stringify.js'
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'

/** Text that never changes, or a writer; undefined where there is nothing to write. */
type Piece = string | ((scope: Scope) => string | undefined)

/**
 * Makes the writer of a value that compileValue accepts. It gives the same as `JSON.stringify` of that value
 * evaluated, with null for nothing at all.
 */
export function compileMapping (value: unknown, context: TemplateContext): (scope: Scope) => string {
  // The value was checked as a whole already; faults are not reported twice.
  const piece = compilePiece(value, { ...context, faults: new FaultList() })
  if (typeof piece === 'string') return () => piece
  return (scope) => piece(scope) ?? 'null'
}

function compilePiece (value: unknown, context: TemplateContext): Piece {
  if (Array.isArray(value)) return arrayOf(value.map((item) => compilePiece(item, context)))
  if (isRecord(value)) {
    return objectOf(
      Object.entries(value).filter(([, item]) => item !== undefined).map((
        [name, item]
      ) => [`${JSON.stringify(name)}:`, compilePiece(item, context)])
    )
  }
  const compiled = compileValue(value, '', context)
  if (compiled.constant) return toJsonText(compiled.evaluate(noScope)) ?? 'null'
  const { evaluate } = compiled
  return (scope) => toJsonText(evaluate(scope))
}

function arrayOf (items: readonly Piece[]): Piece {
  if (items.every((item) => typeof item === 'string')) return `[${items.join(',')}]`
  return (scope) => {
    let text = '['
    for (let index = 0; index < items.length; index++) {
      const item = items[index]!
      if (index > 0) text += ','
      text += typeof item === 'string' ? item : item(scope) ?? 'null'
    }
    return `${text}]`
  }
}

/** Members that follow each other and are constant become one text. */
function objectOf (members: readonly (readonly [string, Piece])[]): Piece {
  const steps: { readonly key: string, readonly write: Exclude<Piece, string> | null }[] = []
  for (const [key, piece] of members) {
    const last = steps.at(-1)
    if (typeof piece !== 'string') steps.push({ key, write: piece })
    else if (last?.write === null) steps[steps.length - 1] = { key: `${last.key},${key}${piece}`, write: null }
    else steps.push({ key: key + piece, write: null })
  }
  if (steps.every(({ write }) => write === null)) return `{${steps.map(({ key }) => key).join(',')}}`
  return (scope) => {
    let text = '{'
    for (const { key, write } of steps) {
      const value = write === null ? '' : write(scope)
      if (value !== undefined) text += text.length === 1 ? key + value : `,${key}${value}`
    }
    return `${text}}`
  }
}
