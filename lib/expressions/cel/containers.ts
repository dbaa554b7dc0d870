/** Lists and maps: their literals, access to their members, and the macros that evaluate a part of the expression for each item. */
import { UnsignedInt } from '@marcbachmann/cel-js/evaluator'
import type { Budget, Frame, Part, Run } from './frame.js'
import { isEqual, isList, isMap, keysOf, kindOf, NotComputable } from './values.js'

const listBytes = 16
const referenceBytes = 8
const memberBytes = 64
const memberSteps = 10

/** Names that a map in an expression cannot have. */
const refusedNames: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

export function listOf (items: readonly Run[], frame: Frame): unknown[] {
  frame.budget.allocate(listBytes + referenceBytes * items.length)
  return items.map((item) => item(frame))
}

export function mapOf (entries: readonly (readonly [Run, Run])[], frame: Frame): Record<string, unknown> {
  frame.budget.allocate(memberBytes * (1 + entries.length))
  const map: Record<string, unknown> = {}
  for (const [key, value] of entries) {
    frame.budget.spend(memberSteps)
    const name = nameOf(key(frame), frame.budget)
    const member = value(frame)
    if (!refusedNames.has(name)) map[name] = member
  }
  return map
}

/** The name of a member. The engine interns each name, which takes a pass over it. */
function nameOf (key: unknown, budget: Budget): string {
  const name = key instanceof UnsignedInt ? key.toString() : key
  switch (typeof name) {
    case 'string':
      budget.allocateText(name.length)
      return name
    case 'number':
    case 'boolean':
      return String(name)
    case 'bigint':
      if (BigInt.asIntN(64, name) === name) return String(name)
      break
    default:
  }
  throw new NotComputable(`a ${kindOf(key)} is not a valid name of a member`)
}

/** `container.name`, `container[key]`; a missing member is an error. */
export function access (container: unknown, key: unknown, budget: Budget): unknown {
  let value: unknown
  if (isList(container)) {
    if (typeof key === 'number' || typeof key === 'bigint') value = container[Number(key)]
  } else if (isMap(container)) {
    const name = nameOf(key, budget)
    if (Object.hasOwn(container, name)) value = container[name]
  }
  if (value === undefined) throw new NotComputable(`the ${kindOf(container)} has no such member`)
  return value
}

export function hasMember (container: unknown, name: string): boolean {
  if (container === null || container === undefined) throw new NotComputable('null has no members')
  return isMap(container) && Object.hasOwn(container, name) && container[name] !== undefined
}

/** `value in list`, `key in map` */
export function isIn (value: unknown, container: unknown, budget: Budget): boolean {
  budget.spend(1)
  if (isList(container)) return container.some((item) => isEqual(value, item, budget))
  if (!isMap(container)) throw new NotComputable(`in ${kindOf(container)}`)
  const name = nameOf(value, budget)
  return Object.hasOwn(container, name) && container[name] !== undefined
}

/** Evaluates the body with the item, which is stored in `slot`. */
interface Iteration {
  readonly slot: number
  readonly body: Part
}

const iterationSteps = 3
const itemBytes = 16

/** Macros evaluate a part of the expression for each item of a list. Each iteration charges that part again. */
export const quantifiers = {
  /** An error counts only if no other item decides. */
  all: (frame, list, iteration) => !decides(frame, list, iteration, false),
  exists: (frame, list, iteration) => decides(frame, list, iteration, true),
  exists_one: (frame, list, iteration) =>
    itemsOf(list, frame.budget).filter((item) => isBool(evaluate(frame, item, iteration))).length === 1,
  filter: (frame, list, iteration) =>
    itemsOf(list, frame.budget).filter((item) => {
      frame.budget.allocate(itemBytes)
      return isBool(evaluate(frame, item, iteration))
    })
} as const satisfies Record<string, (frame: Frame, list: unknown, iteration: Iteration) => unknown>

/** `list.map(item, value)`, and `list.map(item, predicate, value)`. */
export function map (frame: Frame, list: unknown, predicate: Iteration | null, value: Iteration): unknown[] {
  const results: unknown[] = []
  for (const item of itemsOf(list, frame.budget)) {
    if (predicate !== null && !isBool(evaluate(frame, item, predicate))) continue
    frame.budget.allocate(itemBytes)
    results.push(evaluate(frame, item, value))
  }
  return results
}

/** `cel.bind(name, value, body)`; the body is charged with the expression, since it runs once. */
export function bind (frame: Frame, value: unknown, { slot, body }: Iteration): unknown {
  frame.bound[slot] = value
  return body.run(frame)
}

function evaluate (frame: Frame, item: unknown, { slot, body }: Iteration): unknown {
  frame.budget.spend(body.steps + iterationSteps)
  frame.bound[slot] = item
  return body.run(frame)
}

function decides (frame: Frame, list: unknown, iteration: Iteration, decision: boolean): boolean {
  let failed: Error | null = null
  for (const item of itemsOf(list, frame.budget)) {
    try {
      if (isBool(evaluate(frame, item, iteration)) === decision) return true
    } catch (error) {
      // Each error is charged, not only the first.
      const charged = frame.budget.absorb(error)
      failed ??= charged
    }
  }
  if (failed !== null) throw failed
  return false
}

/** The items of a list, or the keys of a map. */
function itemsOf (value: unknown, budget: Budget): readonly unknown[] {
  if (isList(value)) return value
  if (isMap(value)) return keysOf(value, budget)
  throw new NotComputable('a macro needs a list or a map')
}

function isBool (value: unknown): boolean {
  if (typeof value !== 'boolean') throw new NotComputable('a predicate must return true or false')
  return value
}
