/** Writes a value with templates as JSON text. The constant parts are serialized once. */
import type { Scope } from '../expressions/types.js'
import type { TemplateContext } from '../expressions/reference.js'
import { FaultList } from '../schema/faults.js'
import { isRecord } from '../json/plain-value.js'
import { toJsonText } from '../json/stringify.js'
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'

/** Constant text, or a writer, which returns undefined if there is nothing to write. */
type Piece = string | ((scope: Scope) => string | undefined)

/**
 * Compiles a value that compileValue accepts. The writer's output equals `JSON.stringify` of the evaluated value, with null for undefined.
 */
export function compileMapping (value: unknown, context: TemplateContext): (scope: Scope) => string {
  // compileValue has already checked the whole value, so its faults are not reported again.
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

/** Merges adjacent constant members into one text. */
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
