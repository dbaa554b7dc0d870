/**
 * Expressions: CEL over the sources of templates and a few locals, compiled once. Paths have the same readers as templates: a missing path
 * is null instead of an error, inherited members cannot be reached, and the references of an expression are known.
 *
 * Differences from plain CEL: `===` and `!==` are `==` and `!=`. `{{path}}` is a reference; inside a string literal it is text. int and
 * double mix in arithmetic, so that `item.price * 2` works (two integer literals still divide as integers). `!` accepts any value: it is
 * the complement of a condition. Results are JSON values. As in CEL, `&&`, `||` and `?:` accept only true and false, and other operators
 * refuse null and mixed types.
 */
import { type ASTNode, Environment, ParseError, TypeError as CelTypeError } from '@marcbachmann/cel-js'
import { failure } from '../errors.js'
import { compileCel, type CompiledCel, CompileFault } from './cel/compile.js'
import { Budget, ExpressionLimit } from './cel/frame.js'
import { isTruthy } from './cel/values.js'
import { toJson } from './expression-result.js'
import { type CelText, toCel } from './expression-text.js'
import { collectVariables, type LocalMember } from './expression-variables.js'
import type { TemplateContext } from './reference.js'
import { parseOrFault } from './template-parser.js'
import type { Reference, Scope } from './types.js'

const maxLength = 4096 // characters

const environment = new Environment({
  unlistedVariablesAreDyn: true,
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 1000, maxDepth: 64, maxListElements: 100, maxMapEntries: 100, maxCallArguments: 16 }
})
// The library uses these types for its check; the evaluator is our own, see cel/.
const unused = () => null
for (const operator of ['+', '-', '*', '/', '%']) {
  environment.registerOperator(`int ${operator} double: double`, unused)
  environment.registerOperator(`double ${operator} int: double`, unused)
}
environment.registerOperator('double % double: double', unused)
for (const type of ['null', 'int', 'uint', 'double', 'string']) environment.registerOperator(`!${type}: bool`, unused)
environment.registerFunction('now(): string', unused)
environment.registerFunction('uuid(): string', unused)

/** The signatures for the check of an expression. */
export function expressionFunctions (): readonly string[] {
  return environment.getDefinitions().functions.map(({ signature }) => signature)
}

type Locals = Readonly<Record<string, unknown>>

/** A compiled expression. Both functions throw `expressionLimit` beyond the budget. */
export interface CompiledExpression {
  readonly references: readonly Reference[]
  /** The used locals. */
  readonly locals: ReadonlySet<string>
  /** The used fields of the locals. */
  readonly members: readonly LocalMember[]
  /**
   * The value as JSON, which shares no list or object with the scope: numbers for integers (a bigint if a number is not exact), ISO 8601
   * text for timestamps, null for NaN and infinities. Throws for wrong operands (`null + 1`, `'a' > 1`) and for an index out of bounds.
   * Several evaluations can share one budget.
   */
  readonly evaluate: (scope: Scope, locals: Locals, budget?: Budget) => unknown
  /** Whether the value is true; throws like `evaluate`. */
  readonly holds: (scope: Scope, locals: Locals) => boolean
}

/**
 * Compiles an expression of at most 4,096 characters. `locals` are further names beside the sources of the context. If the text
 * is a tenant's, `matches()` and the macros that loop are refused. Faults, with their positions, go to the context's list; the result
 * is then null.
 */
export function compileExpression (
  text: string,
  pointer: string,
  context: TemplateContext,
  locals: readonly string[]
): CompiledExpression | null {
  const { faults } = context
  if (text.length > maxLength) {
    faults.add(pointer, `an expression can have at most ${maxLength} characters, but this one has ${text.length}`)
    return null
  }
  const before = faults.faults.length
  const parsed = parse(text, pointer, context)
  if (parsed === null) return null
  const { paths, references, locals: used, members } = collectVariables(parsed.ast, parsed.cel, pointer, context, locals)
  if (faults.faults.length > before) return null
  try {
    const compiled = compileCel(parsed.ast, paths)
    const evaluate = evaluator(compiled, pointer)
    const { path } = compiled
    return Object.freeze({
      references,
      locals: used,
      members,
      evaluate: (scope: Scope, values: Locals, budget?: Budget) => {
        // Values of paths usually need no conversion.
        const value = path === null || budget !== undefined ? undefined : path(scope, values)
        if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
        return evaluate(scope, values, budget === undefined ? new Budget() : budget.begin(), toJson)
      },
      holds: (scope: Scope, values: Locals) => evaluate(scope, values, new Budget(), isTruthy) === true
    })
  } catch (error) {
    if (!(error instanceof CompileFault)) throw error
    faults.add(pointer, `${error.message} (at character ${parsed.cel.origin(error.node.range.start) + 1})`)
    return null
  }
}

/** Runs the closures under the budget. */
function evaluator ({ run, steps, slots }: CompiledCel, pointer: string) {
  return (scope: Scope, locals: Locals, budget: Budget, convert: (value: unknown, budget: Budget) => unknown): unknown => {
    try {
      budget.spend(steps)
      return convert(run({ scope, locals, budget, bound: slots === 0 ? none : new Array<unknown>(slots) }), budget)
    } catch (error) {
      const limit = limitIn(error, budget)
      if (limit === null) throw error
      const message =
        `The expression at ${pointer} exceeds the limit of time or memory: send or select less data, or compute less`
      throw failure('expressionLimit', {
        message,
        extras: { details: [{ path: pointer, message: limit.message, keyword: 'expressionLimit' }] }
      })
    }
  }
}

const none: unknown[] = []

/** The exceeded limit, if the charge for the error exceeds it too; null for another error. */
function limitIn (error: unknown, budget: Budget): ExpressionLimit | null {
  try {
    budget.absorb(error)
    return null
  } catch (limit) {
    return limit instanceof ExpressionLimit ? limit : null
  }
}

/** How the parser names its tokens, and how authors of documents know them. */
const signs: Readonly<Record<string, string>> = {
  EOF: 'the end of the expression',
  IDENTIFIER: 'a name',
  NUMBER: 'a number',
  STRING: 'a string',
  PLUS: '`+`',
  MINUS: '`-`',
  MULTIPLY: '`*`',
  DIVIDE: '`/`',
  MODULO: '`%`',
  LPAREN: '`(`',
  RPAREN: '`)`',
  LBRACKET: '`[`',
  RBRACKET: '`]`',
  LBRACE: '`{`',
  RBRACE: '`}`',
  DOT: '`.`',
  COMMA: '`,`',
  COLON: '`:`',
  QUESTION: '`?`'
}

/** Some errors of the library have no summary, such as that of `[].all(x, x == x)`: it does not determine the type of `x`. */
function withSigns (summary = 'the types of the expression cannot be determined'): string {
  const sign = (token: string): string => signs[token] ?? token
  return summary
    .replace(/^Unexpected token: ([A-Z]+)$/, (_whole, token: string) => `unexpected: ${sign(token)}`)
    .replace(/^Expected ([A-Z]+), got ([A-Z]+)$/, (_whole, token: string, got: string) => `expected ${sign(token)}, got ${sign(got)}`)
}

function parse (text: string, pointer: string, { faults }: TemplateContext): { ast: ASTNode, cel: CelText } | null {
  const cel = parseOrFault(() => toCel(text), pointer, faults)
  if (cel === undefined) return null
  const fault = (error: ParseError | CelTypeError): null => {
    faults.add(pointer, `${withSigns(error.summary)} (at character ${cel.origin(error.range?.start ?? 0) + 1})`)
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
