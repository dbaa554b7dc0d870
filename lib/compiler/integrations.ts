/** The calls to other services that a route declares. */
import type { Integration } from '../schema/integration.js'
import type { CompiledCall, ConnectorSet } from '../connectors/types.js'
import type { TemplateContext } from '../expressions/reference.js'
import type { Reference } from '../expressions/types.js'
import { pointerTo } from '../schema/faults.js'
import { compileCondition, type Condition } from '../expressions/condition.js'
import { compileCopies, type CopyCheck } from '../expressions/copies.js'

/** One of them, ready to run. */
export interface CompiledIntegration {
  /** The name in `{{results.<key>}}`: see `integrationKeys`. */
  readonly key: string
  /** Whether the call runs; null where it always does. */
  readonly condition: Condition | null
  readonly call: CompiledCall
  readonly references: readonly Reference[]
  /** The check of what its params copy; null where none is needed. */
  readonly copies: CopyCheck | null
}

/**
 * The names of the integrations' results, in order: the alias, or else the type as it is written. Of a type whose name is
 * taken it is `<type>_2`, `<type>_3` and so on. A name that stands here twice was given twice.
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
 * Compiles them in order; each sees the results of the queries and of those before it. Of what has faults nothing is returned.
 *
 * @param queries the names of the results of the route's queries
 */
export function compileIntegrations (
  integrations: readonly Integration[],
  pointer: string,
  queries: Iterable<string>,
  connectors: ConnectorSet | undefined,
  context: TemplateContext
): CompiledIntegration[] {
  const results = new Set(queries)
  const keys = integrationKeys(integrations, results)
  return integrations.flatMap((integration, index) => {
    const at = pointerTo(pointer, index)
    const templates: TemplateContext = { ...context, results: new Set(results) }
    const key = keys[index] ?? integration.type
    if (results.has(key)) context.faults.add(`${at}/alias`, `two results have the name "${key}": choose another alias`)
    results.add(key)
    const condition = integration.condition === undefined ? null : compileCondition(integration.condition, `${at}/condition`, templates)
    if (connectors === undefined) {
      context.faults.add(at, 'nothing runs integrations here')
      return []
    }
    const call = connectors.call(integration, at, templates)
    if (call === null || (integration.condition !== undefined && condition === null)) return []
    const references = Object.freeze([...condition?.references ?? [], ...call.references])
    return [
      Object.freeze({ key, condition: condition?.holds ?? null, call, references, copies: compileCopies(integration.params, templates) })
    ]
  })
}
