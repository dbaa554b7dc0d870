/** The order of a workflow's steps: sequential, nested, or chosen by a switch. */
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import { maxNesting, maxSteps, type Step } from '../schema/workflow.js'
import { checkStepMembers, kindOf } from './members.js'
import type { CompiledStep } from './types.js'

export interface Place {
  readonly step: Step
  readonly pointer: string
  readonly kind: CompiledStep['kind']
  /** The steps of a `parallel`. */
  readonly parallel: readonly Place[]
  /** The steps that a switch can choose, by id. */
  readonly targets: Map<string, Place>
}

export interface Flow {
  /** The steps that run in the order of the list, without targets of switches. */
  readonly order: readonly Place[]
  /** All steps, in the order of the document. */
  readonly ids: readonly string[]
}

/** Null after faults: without an order the steps cannot be checked. */
export function flowOf (steps: readonly Step[], pointer: string, faults: FaultList): Flow | null {
  const before = faults.faults.length
  const ids = new Map<string, string>()
  const places = placesOf(steps, pointer, 0, ids, faults)
  if (ids.size > maxSteps) {
    faults.add(pointer, `a workflow can have at most ${maxSteps} steps including nested ones, but this one has ${ids.size}`)
  }
  if (faults.faults.length > before) return null
  const picked = link(places, ids, faults)
  if (faults.faults.length > before) return null
  return { order: places.filter(({ step }) => !picked.has(step.id)), ids: [...ids.keys()] }
}

function placesOf (steps: readonly Step[], pointer: string, depth: number, ids: Map<string, string>, faults: FaultList): Place[] {
  return steps.flatMap((step, index) => {
    const at = pointerTo(pointer, index)
    const { id } = step
    const first = ids.get(id)
    if (id === '__proto__') faults.add(`${at}/id`, 'a step cannot have the id "__proto__"')
    else if (first !== undefined) faults.add(`${at}/id`, `the step at ${first} already has the id "${id}"`)
    else ids.set(id, at)
    const kind = kindOf(step, at, faults)
    if (kind === undefined || !checkStepMembers(step, kind, at, faults)) return []
    if (kind === 'parallel' && depth === maxNesting) {
      faults.add(`${at}/parallel`, `steps in \`parallel\` can be nested at most ${maxNesting} levels deep`)
      return []
    }
    const parallel = placesOf(step.parallel ?? [], `${at}/parallel`, depth + 1, ids, faults)
    return { step, pointer: at, kind, parallel, targets: new Map<string, Place>() }
  })
}

/** Gives each switch its targets; returns the ids of all targets. */
function link (places: readonly Place[], ids: ReadonlyMap<string, string>, faults: FaultList): Set<string> {
  const top = new Map(places.map((place) => [place.step.id, place]))
  const pickedBy = new Map<string, Place>()
  for (const place of everyPlace(places)) {
    if (place.kind !== 'switch') continue
    for (const { id, at } of namedBy(place)) {
      const target = top.get(id)
      const other = pickedBy.get(id)
      if (target === undefined && ids.has(id)) {
        faults.add(at, `the step "${id}" is within \`parallel\`: a switch can select only steps of the workflow's own list`)
      } else if (target === undefined) faults.add(at, `no step of the workflow's own list has the id "${id}"`, nearest(id, top.keys()))
      else if (target === place) faults.add(at, 'a switch cannot select itself')
      else if (other !== undefined && other !== place) faults.add(at, `the step "${id}" is already selected by the switch "${other.step.id}"`)
      else {
        pickedBy.set(id, place)
        place.targets.set(id, target)
      }
    }
  }
  // In a circle of switches, no step would ever run.
  for (const place of pickedBy.values()) {
    if (canReach(place, place)) faults.add(place.pointer, 'the switch selects a step that leads back to it')
  }
  return new Set(pickedBy.keys())
}

function * everyPlace (places: readonly Place[]): Generator<Place> {
  for (const place of places) {
    yield place
    yield * everyPlace(place.parallel)
  }
}

function namedBy ({ step: { cases = {}, default: fallback }, pointer }: Place): { id: string, at: string }[] {
  const named = Object.entries(cases).map(([name, id]) => ({ id, at: pointerTo(pointer, 'cases', name) }))
  return fallback === undefined ? named : [...named, { id: fallback, at: `${pointer}/default` }]
}

/** Whether running one step can reach the other; each step has one switch, so the path is bounded by the list. */
function canReach (from: Place, sought: Place, seen = new Set<Place>()): boolean {
  if (seen.has(from)) return false
  seen.add(from)
  const inside = [...from.targets.values(), ...from.parallel]
  return inside.some((place) => place === sought || canReach(place, sought, seen))
}

export function * everyStep (steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step
    if (step.parallel !== undefined) yield * everyStep(step.parallel)
  }
}

/** The same for compiled steps, including the targets of switches. */
export function * everyCompiled (steps: Iterable<CompiledStep>): Generator<CompiledStep> {
  for (const step of steps) {
    yield step
    if (step.kind === 'parallel') yield * everyCompiled(step.steps)
    else if (step.kind === 'switch') {
      yield * everyCompiled(new Set([...step.cases.values(), ...step.fallback === null ? [] : [step.fallback]]))
    }
  }
}
