/** A route's declared calls to other services. */
import type { CompiledCall, ConnectorSet } from '../connectors/types.js'
import { compileCondition, type Condition } from '../expressions/condition.js'
import { compileExpansionGuard, type ExpansionGuard } from '../expressions/expansion-guard.js'
import { type KnownResult, unknownResult } from '../expressions/known-members.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { Reference } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import type { Integration } from '../schema/integrations.js'

export interface CompiledIntegration {
  /** The `<key>` of `{{results.<key>}}`: see `integrationKeys`. */
  readonly key: string
  /** Decides whether the call runs; null if it always does. */
  readonly condition: Condition | null
  readonly call: CompiledCall
  readonly references: readonly Reference[]
  /** Limits the size of the values that its params copy; null if no check is needed. */
  readonly expansionGuard: ExpansionGuard | null
}

/**
 * The names of the integrations' results, in order: the alias, or else the type as written. If a type's name is taken, it becomes
 * `<type>_2`, `<type>_3` and so on. Only a repeated alias repeats a name.
 *
 * @param queries the names of the results of the route's queries
 */
export function integrationKeys (integrations: readonly Pick<Integration, 'alias' | 'type'>[], queries: Iterable<string>): string[] {
  const taken = new Set([...queries, ...integrations.flatMap(({ alias }) => alias ?? [])])
  return integrations.map(({ alias, type }) => {
    if (alias !== undefined) return alias
    let key = type
    for (let number = 2; taken.has(key); number++) key = `${type}_${number}`
    taken.add(key)
    return key
  })
}

/**
 * Compiles the calls in order; each can read the results of the queries and of earlier calls. Calls with faults are omitted.
 *
 * @param queries the results of the route's queries
 */
export function compileIntegrations (
  integrations: readonly Integration[],
  pointer: string,
  queries: ReadonlyMap<string, KnownResult>,
  connectors: ConnectorSet | undefined,
  context: TemplateContext
): CompiledIntegration[] {
  const results = new Map(queries)
  const keys = integrationKeys(integrations, results.keys())
  return integrations.flatMap((integration, index) => {
    const at = pointerTo(pointer, index)
    const templates: TemplateContext = { ...context, results: new Map(results) }
    const key = keys[index] ?? integration.type
    if (results.has(key)) context.faults.add(`${at}/alias`, `two results have the name "${key}": choose another alias`)
    results.set(key, unknownResult)
    const condition = integration.condition === undefined ? null : compileCondition(integration.condition, `${at}/condition`, templates)
    if (connectors === undefined) {
      context.faults.add(at, 'integrations are not available here')
      return []
    }
    const call = connectors.call(integration, at, templates)
    if (call === null || (integration.condition !== undefined && condition === null)) return []
    const references = Object.freeze([...condition?.references ?? [], ...call.references])
    const expansionGuard = compileExpansionGuard(integration.params, templates)
    return [Object.freeze({ key, condition: condition?.holds ?? null, call, references, expansionGuard })]
  })
}
