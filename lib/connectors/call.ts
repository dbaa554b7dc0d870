/** One declared call of an action: its params, their faults, and the request. */
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import { hasTemplate } from '../expressions/template-parser.js'
import type { Reference, Scope } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { invalidInput } from '../validation/detail.js'
import { version } from '../version.js'
import type { CompiledAction } from './action.js'
import { addressOf, compileAddress, type CompiledAddress } from './address.js'
import type { CompiledConnector } from './connector.js'
import type { CompiledCall, DeclaredCall, PreparedRequest } from './types.js'

const idempotentMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'])

const userAgent = `tenantry/${version}`

/** Compiles a call; null after faults. */
export function compileCall (
  connector: CompiledConnector,
  action: CompiledAction,
  declared: DeclaredCall,
  pointer: string,
  context: TemplateContext
): CompiledCall | null {
  const before = context.faults.faults.length
  const params = compileParams(declared.params, action, `${pointer}/params`, context)
  if (context.faults.faults.length > before || params === null) return null
  const { definition } = action
  const method = action.method ?? constantMethod(declared.params)
  return Object.freeze({
    connector: connector.name,
    action: declared.action,
    declared: connector.declared,
    origin: connector.origin,
    method: method ?? '*',
    idempotent: definition.safe === true || (method !== null && idempotentMethods.has(method)),
    followRedirects: definition.followRedirects === true,
    oauth2: connector.auth?.oauth2 ?? null,
    references: Object.freeze([...params.references, ...action.references.filter(({ source }) => source === 'secret'), ...connector.references]),
    prepare: (scope: Scope) => prepare(connector, action, params, scope),
    result: action.result,
    // A setting always belongs to the platform.
    ownedBy: (scope: Scope) => !action.readsSettings && connector.ownedBy(scope)
  })
}

interface CompiledParams {
  readonly references: readonly Reference[]
  readonly evaluate: (scope: Scope) => unknown
  /** The declared params contain the host of the call. */
  readonly hostFixed: boolean
}

function compileParams (declared: unknown, action: CompiledAction, pointer: string, context: TemplateContext): CompiledParams | null {
  const given = declared ?? {}
  if (typeof given === 'string' && hasTemplate(given)) return { ...compileValue(given, pointer, context), hostFixed: false }
  if (!isRecord(given)) {
    context.faults.add(pointer, 'expected an object, or a template that returns one')
    return null
  }
  action.check.declared(given, pointer, context)
  const { addresses = [] } = action.definition
  const compiled = addresses.flatMap((name): [string, CompiledAddress | null][] => {
    const text = Object.hasOwn(given, name) ? given[name] : undefined
    return typeof text === 'string' ? [[name, compileAddress(text, `${pointer}/${name}`, context, 'whole')]] : []
  })
  const own = new Set(compiled.map(([name]) => name))
  const rest = compileValue(Object.fromEntries(Object.entries(given).filter(([name]) => !own.has(name))), pointer, context)
  if (compiled.length === 0) return { ...rest, hostFixed: false }
  return {
    references: [...rest.references, ...compiled.flatMap(([, address]) => address?.references ?? [])],
    hostFixed: compiled.every(([, address]) => address?.hostFixed === true),
    evaluate: (scope) => {
      const texts = Object.fromEntries(compiled.map(([name, address]) => [name, address?.evaluate(scope)]))
      return Object.assign(texts, rest.evaluate(scope))
    }
  }
}

function prepare (connector: CompiledConnector, action: CompiledAction, compiled: CompiledParams, scope: Scope): PreparedRequest {
  const given = compiled.evaluate(scope) ?? {}
  if (!isRecord(given)) throw invalidInput('/params', 'must be an object', 'type')
  action.check.evaluated(given)
  const inside = { ...scope, params: given, credentials: connector.credentials?.evaluate(scope) ?? {} }
  const within = { ...inside, params: action.complete(given, inside) }
  const { url: base, trusted } = connector.base(within, compiled.hostFixed)
  const { method, path, body, query, headers } = action.parts(within)
  const text = body?.text ?? null
  connector.auth?.apply(within, headers, query)
  headers['user-agent'] ??= userAgent
  headers['accept'] ??= 'application/json'
  if (body !== null) headers['content-type'] ??= body.contentType
  if (action.sign !== null) Object.assign(headers, action.sign(within, text ?? ''))
  return { method, url: addressOf(base, path, query.toString()), headers, body: text, trusted }
}

/** For a call whose params set it. */
function constantMethod (params: unknown): string | null {
  if (typeof params === 'string') return null
  const method = isRecord(params) && Object.hasOwn(params, 'method') ? params['method'] : 'GET'
  return typeof method === 'string' && !hasTemplate(method) ? method.toUpperCase() : null
}
