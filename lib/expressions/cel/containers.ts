/** Lists and maps: their literals, and access to their members. */
import type { Budget } from './budget.js'
import type { Frame, Run } from './frame.js'
import { isEqual, isList, isMap, kindOf, NotComputable } from './values.js'
import { UnsignedInt } from '@marcbachmann/cel-js/evaluator'

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
