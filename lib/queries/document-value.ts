/** The values that a filter compares JSON with, on both stores of documents. A text of a URL counts as each value that it can represent. */
import type { CompiledValue, Scope } from '../expressions/types.js'
import { parseJson } from '../json/parse.js'
import { type TypedFault, withNormalTypes } from '../json/typed-values.js'
import type { Operator } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import type { QueryContext } from './context.js'
import { type FilterValue, takesList } from './filter-value.js'
import { jsonTexts, requestPath, splitList } from './request-value.js'

/** The value as the store has it. `unfit`: the reason why the store cannot have it. */
interface StoredValue {
  readonly value: unknown
  readonly unfit: string | undefined
}

export type Normalise = (value: unknown) => StoredValue

/** For columns of tables. */
export const asGiven: Normalise = (value) => ({ value, unfit: undefined })

/** For documents: equal typed values have equal JSON. */
export const withTypes: Normalise = (given) => {
  const faults: TypedFault[] = []
  const value = withNormalTypes(given, faults)
  const [fault] = faults
  return { value, unfit: fault === undefined ? undefined : `must be ${fault.expected}` }
}

interface Compared {
  readonly operator: Operator
  /** The field, for messages. */
  readonly name: string
  /** Whether a text of the value, or of an item, counts as each JSON value that it can represent. */
  readonly isOpen: (value: CompiledValue) => boolean
  readonly normalise: Normalise
}

/** The values of a request; null without one. Throws `validationFailed`. */
export type ReadValues = (scope: Scope) => readonly unknown[] | null

export function valuesReader ({ read, value, items }: FilterValue, { operator, name, isOpen, normalise }: Compared): ReadValues {
  const path = requestPath(value, `/${name}`)

  const stored = (item: unknown): unknown => {
    const { value, unfit } = normalise(item)
    if (unfit !== undefined) throw invalidInput(path, `the field "${name}" is compared with a value that ${unfit}`, 'type')
    return value
  }

  const readings = (item: unknown): readonly unknown[] => {
    if (typeof item !== 'string') return [item]
    const texts = jsonTexts(item)
    // For other operators, a string that starts like JSON is compared as a string.
    if (texts === undefined && operator === 'contains') {
      throw invalidInput(path, `the field "${name}" is compared with JSON, but this text is not valid JSON`, 'type')
    }
    const values = texts?.map(parseJson) ?? [item]
    // No field equals a value that the store cannot have.
    return isOrdering(operator) ? values : values.filter((value) => normalise(value).unfit === undefined)
  }

  if (items !== undefined) {
    const readers = items.map(({ read, value }) => ({ read, readingsOf: isOpen(value) ? readings : asItem }))
    return (scope) => {
      const values = readers.flatMap(({ read, readingsOf }) => {
        const given = read(scope)
        return given === undefined ? [] : readingsOf(given)
      })
      return values.length === 0 ? null : values.map(stored)
    }
  }
  const readingsOf = isOpen(value) ? readings : asItem
  return (scope) => {
    const given = read(scope)
    if (given === undefined || given === null) return null
    return (takesList(operator) ? listOf(given) : [given]).flatMap(readingsOf).map(stored)
  }
}

function asItem (item: unknown): readonly unknown[] {
  return [item]
}

/** The result for a constant. Reports a constant that every request would reject. */
export function ofConstant<Result> (evaluate: () => Result, pointer: string, { faults }: QueryContext): Result | undefined {
  try {
    return evaluate()
  } catch (error) {
    const { details: [detail] = [] } = Object(Object(error).extras)
    faults.add(pointer, detail === undefined ? 'the field cannot be compared with this value' : detail.message)
    return undefined
  }
}

export type OrderingOperator = 'gt' | 'gte' | 'lt' | 'lte'

export function isOrdering (operator: Operator): operator is OrderingOperator {
  return operator === 'gt' || operator === 'gte' || operator === 'lt' || operator === 'lte'
}

/** An array, or a comma-separated string. */
function listOf (value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return typeof value === 'string' ? splitList(value) : [value]
}
