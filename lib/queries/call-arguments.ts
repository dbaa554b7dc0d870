/** The arguments of a call: converts values and templates to the types of the function. */
import type { FunctionArgument } from '../database/catalogue.js'
import type { CompiledValue, Reference } from '../expressions/types.js'
import type { QueryContext } from './context.js'
import { nearest, pointerTo } from '../schema/faults.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'
import { describeType, type Encoder, encoderOf, itemType, kindOf, listEncoder, unfit } from './column-value.js'
import { unknownArgument } from './function.js'
import { refuse, requestPath } from './request-path.js'
import type { Binder, Switch } from './sql.js'
import { isOfUrl } from './url-value.js'

export interface CallArgument {
  readonly argument: FunctionArgument
  readonly bind: Binder
  /** Set for an argument with a default in the database: whether the request has a value for it. */
  readonly presence?: Switch
  readonly references: readonly Reference[]
}

/** Compiles the arguments; `known` are the function's own, undefined if the function is not known. */
export function compileArguments (
  values: Readonly<Record<string, unknown>>,
  known: readonly FunctionArgument[] | undefined,
  pointer: string,
  context: QueryContext
): CallArgument[] {
  const within: QueryContext = { ...context, secretsRefusedIn: 'the arguments of a function, which may return them' }
  const names = known?.map(({ name }) => name) ?? []
  const given = Object.entries(values).flatMap(([name, configured]): CallArgument[] => {
    const at = pointerTo(pointer, name)
    const before = context.faults.faults.length
    const value = compileValue(configured, at, within)
    const argument = known?.find((each) => each.name === name)
    if (known !== undefined && argument === undefined) {
      context.faults.add(at, unknownArgument(name), nearest(name, names))
    }
    return argument === undefined || context.faults.faults.length > before ? [] : [compileArgument(argument, value, at, context)]
  })
  for (const { name, hasDefault } of known ?? []) {
    if (!Object.hasOwn(values, name) && !hasDefault) context.faults.add(pointer, `the function also needs the argument "${name}"`)
  }
  return given
}

function compileArgument (argument: FunctionArgument, value: CompiledValue, pointer: string, context: QueryContext): CallArgument {
  const { name, type, hasDefault } = argument
  const encode = encoderFor(type, value)
  const message = `the argument "${name}" must be ${describeType({ type })}`
  const path = requestPath(value, `/${name}`)
  const { references } = value
  if (value.constant) {
    const constant = value.evaluate(noScope) ?? null
    const encoded = constant === null ? null : encode(constant)
    if (encoded === unfit) context.faults.add(pointer, message)
    return { argument, bind: () => encoded, references }
  }
  const bind: Binder = (scope) => {
    const given = value.evaluate(scope)
    if (given === null) return null
    if (given === undefined) throw refuse({ path, message: `the argument "${name}" has no value`, keyword: 'required' })
    const encoded = encode(given)
    if (encoded === unfit) {
      throw refuse({ path, message: typeof given === 'string' && !isStorable(given) ? unstorableText : message, keyword: 'type' })
    }
    return encoded
  }
  return { argument, bind, references, ...hasDefault && { presence: (scope) => value.evaluate(scope) !== undefined } }
}

/** A list in a URL is a comma-separated string, a repeated parameter, or both. */
function encoderFor (type: string, value: CompiledValue): Encoder {
  return kindOf(type) === 'array' && isOfUrl(value) ? listEncoder({ type: itemType(type) }) : encoderOf({ type })
}
