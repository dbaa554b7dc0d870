/** Macros evaluate a part of the expression for each item of a list. Each iteration charges that part again. */
import type { Budget } from './budget.js'
import type { Frame, Part } from './frame.js'
import { isList, isMap, keysOf, NotComputable } from './values.js'

/** Evaluates the body with the item, which is stored in `slot`. */
interface Iteration {
  readonly slot: number
  readonly body: Part
}

const iterationSteps = 3
const itemBytes = 16

export const quantifiers = {
  /** An error counts only if no other item decides. */
  all: (frame: Frame, list: unknown, iteration: Iteration) => !decides(frame, list, iteration, false),
  exists: (frame: Frame, list: unknown, iteration: Iteration) => decides(frame, list, iteration, true),
  exists_one: (frame: Frame, list: unknown, iteration: Iteration) =>
    itemsOf(list, frame.budget).filter((item) => isBool(evaluate(frame, item, iteration))).length === 1,
  filter: (frame: Frame, list: unknown, iteration: Iteration) =>
    itemsOf(list, frame.budget).filter((item) => {
      frame.budget.allocate(itemBytes)
      return isBool(evaluate(frame, item, iteration))
    })
} as const

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
