/** Compiles the syntax tree of an expression to closures. The library only parses and checks the text: its functions have no budget. */
import type { ASTNode } from '@marcbachmann/cel-js'
import { compilePattern } from '../../validation/linear-pattern.js'
import { toJson } from '../expression-result.js'
import type { ExpressionReader, Paths } from '../expression-variables.js'
import { toText } from '../template.js'
import { calculate, negate, sum } from './arithmetic.js'
import { access, bind, hasMember, isIn, listOf, map, mapOf, quantifiers } from './containers.js'
import { bytesMethods, conversions } from './conversions.js'
import type { Budget, Part, Run } from './frame.js'
import { stringMethods } from './strings.js'
import { durationOf, timeFunctions, timeMethods } from './times.js'
import { compare, type Functions, isEqual, isTruthy, kindOf, names, NotComputable, text } from './values.js'

/** `name(...)` */
export const functions: Functions = { ...conversions, ...timeFunctions }

/** `value.name(...)` */
export const methods: Functions = { ...stringMethods, ...bytesMethods, ...timeMethods, 'size/1': conversions['size/1']! }

type Operation = (left: unknown, right: unknown, budget: Budget) => unknown

const add: Operation = (left, right, budget) => calculate('+', left, right, budget)

/** The operators that always evaluate both operands. */
const operations = {
  '[]': access,
  '==': isEqual,
  '!=': (left, right, budget) => !isEqual(left, right, budget),
  '<': (left, right, budget) => compare(left, right, budget) < 0,
  '<=': (left, right, budget) => compare(left, right, budget) <= 0,
  '>': (left, right, budget) => compare(left, right, budget) > 0,
  '>=': (left, right, budget) => compare(left, right, budget) >= 0,
  in: isIn,
  '-': (left, right, budget) => calculate('-', left, right, budget),
  '*': (left, right, budget) => calculate('*', left, right, budget),
  '/': (left, right, budget) => calculate('/', left, right, budget),
  '%': (left, right, budget) => calculate('%', left, right, budget)
} as const satisfies Readonly<Record<string, Operation>>

/** A fault of the document: the library accepts syntax that the evaluator lacks. */
export class CompileFault extends Error {
  constructor (message: string, readonly node: ASTNode) {
    super(message)
  }
}

export interface CompiledCel extends Part {
  /** The number of variables that macros bind. */
  readonly slots: number
  /** The whole expression is this path. */
  readonly path: ExpressionReader | null
}

export function compileCel (ast: ASTNode, paths: Paths): CompiledCel {
  const compiler = new Compiler(paths)
  const part = compiler.part(ast, new Map())
  return { ...part, slots: compiler.slots, path: paths.texts.has(ast) ? null : paths.readers.get(ast) ?? null }
}

type Bound = ReadonlyMap<string, number>

class Compiler {
  slots = 0
  #steps = 0

  constructor (private readonly paths: Paths) {}

  /** A separately charged part, such as the body of a macro. */
  part (node: ASTNode, bound: Bound): Part {
    const around = this.#steps
    this.#steps = 0
    const run = this.#node(node, bound)
    const steps = this.#steps
    this.#steps = around
    return { run, steps }
  }

  #node (node: ASTNode, bound: Bound): Run {
    this.#steps++
    const read = this.paths.readers.get(node)
    if (read !== undefined) {
      if (!this.paths.texts.has(node)) return ({ scope, locals }) => read(scope, locals)
      return ({ scope, locals, budget }) => toText(toJson(read(scope, locals), budget))
    }
    switch (node.op) {
      case 'value':
        return constant(node.args)
      case 'id':
        return this.#identifier(node, bound)
      case '.': {
        const container = this.#node(node.args[0], bound)
        const name = node.args[1]
        return (frame) => access(container(frame), name, frame.budget)
      }
      case 'call':
        return this.#call(node, bound)
      case 'rcall':
        return this.#method(node, bound)
      case 'list': {
        const items = node.args.map((item) => this.#node(item, bound))
        return (frame) => listOf(items, frame)
      }
      case 'map': {
        const entries = node.args.map(([key, value]) => [this.#node(key, bound), this.#node(value, bound)] as const)
        return (frame) => mapOf(entries, frame)
      }
      case '?:':
        return this.#conditional(node.args, bound)
      case '&&':
        return this.#logical(node.args, bound, false)
      case '||':
        return this.#logical(node.args, bound, true)
      case '!_': {
        const operand = this.#node(node.args, bound)
        return (frame) => !isTruthy(operand(frame))
      }
      case '-_': {
        const operand = this.#node(node.args, bound)
        return (frame) => negate(operand(frame), frame.budget)
      }
      case '+':
        return this.#sum(node, bound)
      case '.?':
      case '[?]':
        throw new CompileFault('optional access is not supported', node)
      default:
        return this.#binary(node.args, bound, operations[node.op])
    }
  }

  #binary ([left, right]: readonly [ASTNode, ASTNode], bound: Bound, operate: Operation): Run {
    const one = this.#node(left, bound)
    const other = this.#node(right, bound)
    return (frame) => operate(one(frame), other(frame), frame.budget)
  }

  #identifier (node: ASTNode & { op: 'id' }, bound: Bound): Run {
    const slot = bound.get(node.args)
    if (slot !== undefined) return (frame) => frame.bound[slot] ?? null
    const type = names.get(node.args)
    if (type === undefined) throw new CompileFault(`\`${node.args}\` is not defined here`, node)
    return constant(type)
  }

  /** `a + b + c` is one sum, so that a growing text is built once. */
  #sum (node: ASTNode & { op: '+' }, bound: Bound): Run {
    const operands: ASTNode[] = []
    let left: ASTNode = node
    for (; left.op === '+' && !this.paths.readers.has(left); left = left.args[0]) operands.unshift(left.args[1])
    if (operands.length === 1) return this.#binary(node.args, bound, add)
    const values = [left, ...operands].map((operand) => this.#node(operand, bound))
    this.#steps += 2 * values.length
    return (frame) => sum(values.map((value) => value(frame)), frame.budget)
  }

  #conditional ([condition, then, otherwise]: readonly [ASTNode, ASTNode, ASTNode], bound: Bound): Run {
    const test = this.#node(condition, bound)
    const whenTrue = this.#node(then, bound)
    const whenFalse = this.#node(otherwise, bound)
    return (frame) => {
      const value = test(frame)
      if (value === true) return whenTrue(frame)
      if (value === false) return whenFalse(frame)
      throw new NotComputable(`the condition of ?: must be true or false, got ${kindOf(value)}`)
    }
  }

  /** `&&` and `||`: the deciding value counts even if the other operand cannot be computed. */
  #logical ([left, right]: readonly [ASTNode, ASTNode], bound: Bound, decision: boolean): Run {
    const one = this.#node(left, bound)
    const other = this.#node(right, bound)
    return (frame) => {
      let value: unknown
      try {
        value = one(frame)
      } catch (error) {
        value = frame.budget.absorb(error)
      }
      if (value === decision) return decision
      const second = other(frame)
      if (second === decision) return decision
      if (value instanceof Error) throw value
      if (typeof value === 'boolean' && typeof second === 'boolean') return !decision
      throw new NotComputable(`&& and || require true or false, got ${kindOf(value)} and ${kindOf(second)}`)
    }
  }

  #call (node: ASTNode & { op: 'call' }, bound: Bound): Run {
    const [name, args] = node.args
    const [first] = args
    if (name === 'has' && first?.op === '.') {
      const container = this.#node(first.args[0], bound)
      const member = first.args[1]
      return (frame) => hasMember(container(frame), member)
    }
    // The library's parser of durations accepts literals only, so the value is known.
    if (name === 'duration' && first?.op === 'value') return constant(this.#duration(node, first.args))
    return this.#apply(node, functions[`${name}/${args.length}`], `${name}()`, args, bound)
  }

  #method (node: ASTNode & { op: 'rcall' }, bound: Bound): Run {
    const [name, receiver, args] = node.args
    const [variable, first, second] = args
    if (name === 'matches') return this.#matches(node, receiver, variable, bound)
    if (variable?.op === 'id' && first !== undefined) {
      if (name === 'bind' && second !== undefined) {
        const value = this.#node(first, bound)
        const slot = this.slots++
        const body = { slot, body: { run: this.#node(second, new Map([...bound, [variable.args, slot]])), steps: 0 } }
        return (frame) => bind(frame, value(frame), body)
      }
      if (name === 'all' || name === 'exists' || name === 'exists_one' || name === 'filter' || name === 'map') {
        return this.#loop(name, receiver, variable.args, first, second, bound)
      }
    }
    return this.#apply(node, methods[`${name}/${args.length + 1}`], `.${name}()`, [receiver, ...args], bound)
  }

  #loop (
    name: 'map' | keyof typeof quantifiers,
    receiver: ASTNode,
    variable: string,
    first: ASTNode,
    second: ASTNode | undefined,
    bound: Bound
  ): Run {
    const list = this.#node(receiver, bound)
    const slot = this.slots++
    const inside = new Map([...bound, [variable, slot]])
    const one = { slot, body: this.part(first, inside) }
    if (name !== 'map') {
      const quantifier = quantifiers[name]
      return (frame) => quantifier(frame, list(frame), one)
    }
    if (second === undefined) return (frame) => map(frame, list(frame), null, one)
    const value = { slot, body: this.part(second, inside) }
    return (frame) => map(frame, list(frame), one, value)
  }

  #duration (node: ASTNode, literal: unknown): unknown {
    try {
      return durationOf(literal)
    } catch (error) {
      if (error instanceof NotComputable) throw new CompileFault(error.message, node)
      throw error
    }
  }

  #matches (node: ASTNode, receiver: ASTNode, pattern: ASTNode | undefined, bound: Bound): Run {
    const value = this.#node(receiver, bound)
    const literal = pattern?.op === 'value' ? pattern.args : undefined
    const compiled = typeof literal === 'string' ? compilePattern(literal) : 'the pattern of `matches()` must be a string literal'
    if (typeof compiled === 'string') throw new CompileFault(compiled, pattern ?? node)
    return (frame) => {
      const subject = text(value(frame))
      frame.budget.spend(compiled.stepsOn(subject))
      return compiled.test(subject)
    }
  }

  #apply (
    node: ASTNode,
    implementation: (typeof functions)[string] | undefined,
    name: string,
    args: readonly ASTNode[],
    bound: Bound
  ): Run {
    if (implementation === undefined) throw new CompileFault(`\`${name}\` with ${args.length} arguments is not supported`, node)
    const [first = nothing, second = nothing, third = nothing] = args.map((argument) => this.#node(argument, bound))
    return (frame) => {
      frame.budget.spend(1)
      return implementation(frame.budget, first(frame), second(frame), third(frame))
    }
  }
}

function nothing (): undefined {
  return undefined
}

function constant (value: unknown): Run {
  return () => value
}
