/** The call of `POST /integrations/{type}/{action}`: its connector, and whether the caller may run it. */
import type { CompiledCall, ConnectorSet } from '../../lib/connectors/types.js'
import type { Scope } from '../../lib/expressions/types.js'
import { FaultList } from '../../lib/schema/faults.js'
import { failure } from '../../lib/errors.js'

const maxNamed = 100 // of the names in an error
const maxName = 64 // characters of a name from the caller

export interface CallTarget {
  readonly type: string
  readonly action: string
}

export type FindCall = (wanted: CallTarget, platform: ConnectorSet, own: ConnectorSet | null, scope: Scope) => CompiledCall

/** A call is compiled once for a document: its params are the body of the request. */
export function createFindCall (): FindCall {
  const compiled = new WeakMap<ConnectorSet, Map<string, CompiledCall | null>>()

  function callOf (set: ConnectorSet, { type, action }: CallTarget): CompiledCall | null {
    if (!isKnown(set, { type, action })) return null
    const calls = compiled.get(set) ?? new Map<string, CompiledCall | null>()
    compiled.set(set, calls)
    const key = `${type} ${action}`
    const known = calls.get(key)
    if (known !== undefined) return known
    // The body is a value without templates.
    const call = set.call({ type, action, params: '{{body}}' }, '', { faults: new FaultList(), sources: new Set(['body']), env: {} })
    calls.set(key, call)
    return call
  }

  return (wanted, platform, own, scope) => {
    const sets = own === null ? [platform] : [own, platform]
    if (!sets.some((set) => set.has(wanted.type))) throw unknown('integration', wanted.type, sets.flatMap(({ names }) => names))
    if (!sets.some((set) => isKnown(set, wanted))) throw unknown('action', wanted.action, sets.flatMap((set) => set.actions(wanted.type)))
    const ownCall = own === null ? null : callOf(own, wanted)
    if (ownCall !== null) return ownCall
    const call = callOf(platform, wanted)
    if (call === null) {
      throw failure('credentialsRequired', { message: `The integration ${wanted.type} has no credentials: the document declares none` })
    }
    // The platform's connectors serve calls that the platform declares, unless all credentials are the tenant's own.
    if (own !== null && !call.ownedBy(scope)) {
      throw failure('forbidden', {
        message:
          `The credentials of the integration ${wanted.type} belong to the platform: declare the connector in the tenant's document, or store tenant secrets that replace all of its credentials`
      })
    }
    return call
  }
}

function isKnown (set: ConnectorSet, { type, action }: CallTarget): boolean {
  return set.actions(type).includes(action)
}

function unknown (what: string, name: string, names: readonly string[]): Error {
  const known = [...new Set(names)].slice(0, maxNamed)
  return failure('notFound', {
    message: `There is no ${what} "${name.slice(0, maxName)}": expected one of ${known.join(', ')}`,
    extras: { known }
  })
}
