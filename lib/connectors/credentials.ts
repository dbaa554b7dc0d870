/** The credentials of a built-in connector, from `credentials.<name>` of a document. */
import { failure } from '../errors.js'
import { settingsIn } from '../expressions/environment.js'
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Scope } from '../expressions/types.js'
import { FaultList, pointerTo } from '../schema/faults.js'

export type CompiledCredentials = ReturnType<typeof compileCredentials>

/** The member that a tenant's secret never replaces: the address of the platform's own calls. */
const address = 'baseUrl'

const maxLength = 16_384 // characters of one text, as of an address

/**
 * @param secrets the secret members
 * @param context with the sources of credentials; secrets of the same name replace its settings
 */
export function compileCredentials (
  connector: string,
  declared: Readonly<Record<string, string | undefined>>,
  secrets: readonly string[],
  pointer: string,
  context: TemplateContext
) {
  const members = Object.entries(declared).flatMap(([name, text]) =>
    text === undefined ? [] : [{ name, text, value: compileMember(name, text, pointerTo(pointer, name), context) }]
  )
  const own = members.filter(({ name }) => secrets.includes(name))
  const fixed = Object.fromEntries(members.flatMap(({ name, text }) => {
    const value = compileValue(text, '', { ...context, overridableEnv: none, faults: new FaultList() })
    return value.constant ? [[name, value.evaluate(noScope)]] : []
  }))
  return {
    references: members.flatMap(({ value }) => value.references),
    /** Members that no request and no tenant changes. */
    fixed,
    /** Throws `credentialsRequired` if one has no value. */
    evaluate: (scope: Scope) => {
      const record: Record<string, unknown> = {}
      for (const { name, value } of members) {
        const given = value.evaluate(scope)
        if (isText(given)) record[name] = given
        else if (name !== address) {
          throw failure('credentialsRequired', {
            message: `The integration ${connector} has no credentials: the value of \`credentials.${connector}.${name}\` is empty`
          })
        }
      }
      return record
    },
    /** Every secret belongs to the tenant in the scope. */
    ownedBy: (scope: Scope) => own.length > 0 && own.every(({ value }) => isOwned(value, scope))
  }
}

/** A text that reads secrets: many copies of a long one are refused before they are encoded or searched. */
export function bounded (value: CompiledValue): CompiledValue {
  return Object.freeze({
    ...value,
    evaluate: (scope: Scope) => {
      const text = value.evaluate(scope)
      if (typeof text !== 'string' || text.length <= maxLength) return text
      throw failure('credentialsRequired', { message: `A credential of the integration has more than ${maxLength} characters` })
    }
  })
}

/** The value reads only secrets that the tenant in the scope has. */
export function isOwned ({ references }: CompiledValue, scope: Scope): boolean {
  return scope.tenant !== null && references.length > 0 &&
    references.every(({ source, path }) => source === 'secret' && isText(scope.secrets.get(String(path[0]))))
}

function isText (value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function compileMember (name: string, text: string, pointer: string, context: TemplateContext): CompiledValue {
  return bounded(compileValue(text, pointer, { ...context, overridableEnv: name === address ? none : new Set(settingsIn(text)) }))
}

const none: ReadonlySet<string> = new Set()
