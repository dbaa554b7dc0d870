/**
 * Expressions (DESIGN 4): CEL over the sources of templates and a few locals, compiled once. Paths are taken out of
 * the CEL text and read by the same readers as templates, so that a path that leads nowhere is null instead of an
 * error, nothing inherited can be reached, and an expression's references are known.
 *
 * What differs from plain CEL: `===` and `!==` are `==` and `!=`; `{{path}}` is a reference, text inside a string
 * literal; int and double mix in arithmetic, so `item.price * 2` works (two integer literals still divide as
 * integers); `!` of null is true; results are JSON values. What stays as in CEL: `&&`, `||` and `?:` take booleans
 * only, and operators refuse null and mixed types, which makes `evaluate` throw.
 */
import type { ASTNode } from '@marcbachmann/cel-js'
import type { TemplateContext } from './reference.js'
import type { Reference, Scope } from './types.js'
import { Environment, ParseError, TypeError as CelTypeError } from '@marcbachmann/cel-js'
import { toJson } from './expression-result.js'
import { collectVariables, type ExpressionReader, type Variable } from './expression-variables.js'
import { toCel, type CelText } from './expression-text.js'
import { TemplateSyntaxError } from './template-parser.js'

const maxLength = 4096 // characters

const environment = new Environment({
  unlistedVariablesAreDyn: true,
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 1000, maxDepth: 64, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 16 }
})
for (const [left, right] of [['int', 'double'], ['double', 'int']] as const) {
  environment.registerOperator(`${left} + ${right}: double`, (a: unknown, b: unknown) => Number(a) + Number(b))
  environment.registerOperator(`${left} - ${right}: double`, (a: unknown, b: unknown) => Number(a) - Number(b))
  environment.registerOperator(`${left} * ${right}: double`, (a: unknown, b: unknown) => Number(a) * Number(b))
  environment.registerOperator(`${left} / ${right}: double`, (a: unknown, b: unknown) => Number(a) / Number(b))
  environment.registerOperator(`${left} % ${right}: double`, (a: unknown, b: unknown) => Number(a) % Number(b))
}
environment.registerOperator('double % double: double', (a: unknown, b: unknown) => Number(a) % Number(b))
environment.registerOperator('!null: bool', () => true)
// Known to the check only: calls of these are read as paths before anything runs.
environment.registerFunction('now(): string', () => '')
environment.registerFunction('uuid(): string', () => '')

/** An expression, ready to run. */
export interface CompiledExpression {
  readonly references: readonly Reference[]
  /** The locals that it reads. */
  readonly locals: ReadonlySet<string>
  /**
   * The value as JSON: numbers for integers, ISO 8601 text for timestamps, null for what is no number. Throws where
   * the operands do not fit (`null + 1`, `'a' > 1`), an index is out of bounds, or the result is over 1 MB of text.
   */
  readonly evaluate: (scope: Scope, locals: Readonly<Record<string, unknown>>) => unknown
}

/**
 * Compiles an expression of at most 4,096 characters. `locals` are the names that it may use beside the sources of the
 * context. Where the context is `bounded`, `matches()` and the macros that loop are refused. Faults, with the position
 * of what is wrong, go to the context's list; null then.
 */
export function compileExpression (text: string, pointer: string, context: TemplateContext, locals: readonly string[]): CompiledExpression | null {
  const { faults } = context
  if (text.length > maxLength) {
    faults.add(pointer, `an expression has at most ${maxLength} characters; this one has ${text.length}`)
    return null
  }
  const before = faults.faults.length
  const parsed = parse(text, pointer, context)
  if (parsed === null) return null
  const { variables, references, locals: used } = collectVariables(parsed.ast, parsed.cel, pointer, context, locals)
  if (faults.faults.length > before) return null
  return Object.freeze({ references: Object.freeze(references), locals: used, evaluate: compileVariables(parsed.cel.text, variables) })
}

function parse (text: string, pointer: string, { faults }: TemplateContext): { ast: ASTNode, cel: CelText } | null {
  let cel: CelText
  try {
    cel = toCel(text)
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error
    faults.add(pointer, `${error.message} (at character ${error.position + 1})`)
    return null
  }
  const fault = (error: ParseError | CelTypeError): null => {
    faults.add(pointer, `${error.summary} (at character ${cel.origin(error.range?.start ?? 0) + 1})`)
    return null
  }
  try {
    const expression = environment.parse(cel.text)
    const { valid, error } = expression.check()
    return valid || error === undefined ? { ast: expression.ast, cel } : fault(error)
  } catch (error) {
    if (error instanceof ParseError || error instanceof CelTypeError) return fault(error)
    throw error
  }
}

/** Puts the variables in the place of the paths that they stand for, and compiles the result. */
function compileVariables (text: string, variables: readonly Variable[]): CompiledExpression['evaluate'] {
  const inOrder = variables.toSorted((left, right) => left.start - right.start)
  const [only] = inOrder
  // One path alone needs no CEL, and its value is JSON already.
  if (only !== undefined && only.start === 0 && only.end === text.length) return (scope, locals) => only.read(scope, locals)

  let rewritten = ''
  let position = 0
  for (const { name, start, end } of inOrder) {
    rewritten += text.slice(position, start) + name
    position = end
  }
  const run = environment.parse(rewritten + text.slice(position))
  const names = inOrder.map(({ name }) => name)
  const readers: ExpressionReader[] = inOrder.map(({ read }) => read)
  return (scope, locals) => {
    const values: Record<string, unknown> = {}
    for (let index = 0; index < names.length; index++) values[names[index]!] = readers[index]!(scope, locals)
    return toJson(run(values))
  }
}
