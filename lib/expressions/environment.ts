/** Settings from the environment, and the templates of a document that name them. */
import { isExact } from '../json/exact-number.js'
import type { SchemaNode } from '../schema/annotations.js'
import { type FaultList, nearest } from '../schema/faults.js'
import { parseOrFault, parseTemplate, type TemplateNode, TemplateSyntaxError } from './template-parser.js'

/** The environment: values of settings by name. */
export type Env = Readonly<Record<string, string | undefined>>

/** The value of a setting; undefined if it is not set. */
export function setting (env: Env, name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined
}

/**
 * Resolves `{{env.NAME}}`, `{{env.NAME || default}}` and `${NAME}` in a text. A text that is one template becomes a number or boolean if
 * one of the types `accepted` needs it. A setting's value is not evaluated as a template. undefined after a fault.
 */
export function resolveEnvironment (text: string, accepted: ReadonlySet<string>, env: Env, pointer: string, faults: FaultList): unknown {
  const segments = parseOrFault(() => parseTemplate(text), pointer, faults)
  if (segments === undefined) return undefined
  const before = faults.faults.length
  const values = segments.map((segment) => typeof segment === 'string' ? segment : resolve(segment, env, pointer, faults))
  if (faults.faults.length > before) return undefined
  const [first] = segments
  if (segments.length === 1 && typeof first !== 'string') return converted(values[0], accepted)
  return values.map(String).join('')
}

/** The first alternative that is set and not empty; otherwise the last one. */
function resolve ({ alternatives }: TemplateNode, env: Env, pointer: string, faults: FaultList): unknown {
  let last: unknown
  let lastName: string | undefined
  for (const alternative of alternatives) {
    lastName = undefined
    if (alternative.kind === 'literal') {
      last = alternative.value
    } else {
      const [name] = alternative.path
      if (alternative.source !== 'env' || alternative.path.length !== 1 || typeof name !== 'string') {
        faults.add(pointer, `\`${alternative.text}\` is not allowed here: expected a setting, \`{{env.NAME}}\``)
        return undefined
      }
      last = setting(env, name)
      lastName = name
    }
    if (last !== undefined && last !== null && last !== '') return last
  }
  if (last === undefined && lastName !== undefined) faults.add(pointer, missingSetting(lastName, env))
  return last
}

/** A default in the document would be a public secret. */
const secret = /SECRET|KEY|PASSWORD|TOKEN/

/** The fault of a setting that is not set, and what to do. */
export function missingSetting (name: string, env: Env): string {
  const fault = `the setting ${name} is not set`
  if (name === 'JWT_SECRET') return `${fault}: put \`JWT_SECRET=\` and the output of \`openssl rand -base64 48\` into .env, beside the document`
  // Related settings often differ in two letters, such as SMTP_HOST and SMTP_PORT.
  const near = nearest(name, Object.keys(env).filter((other) => other !== name), 1)
  if (near !== undefined) return `${fault}, did you mean "${near}"? If not, set it in the environment, or in .env beside the document`
  if (secret.test(name)) return `${fault}: set it in the environment, or in .env beside the document`
  return `${fault}: set it in the environment, or give a default as in \`{{env.${name} || 'default'}}\``
}

/** Other braces in the text open no template. */
export function isPlainText (text: string): boolean {
  try {
    return parseTemplate(text).every((segment) => typeof segment === 'string')
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error
    return false
  }
}

/** The names of settings in templates and expressions of a text, or of its JSON: `env.NAME`, `env["NAME"]` and `${NAME}`. */
export function settingsIn (text: string): string[] {
  return [...text.matchAll(/\benv(?:\.|\[\s*\\?["'])(\w+)|\$\{(\w+)\}/g)].map(([, name, legacy]) => name ?? legacy ?? '')
}

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

function converted (value: unknown, accepted: ReadonlySet<string>): unknown {
  // Members of a document are doubles.
  if (isExact(value)) return Number(value)
  if (typeof value !== 'string') return value
  const text = value.trim()
  if (accepted.has('boolean') && (text === 'true' || text === 'false')) return text === 'true'
  if ((accepted.has('number') || accepted.has('integer')) && number.test(text)) return Number(text)
  return value
}

/** The JSON types that a schema accepts; for an enum those of its values. */
export function acceptedTypes (node: SchemaNode): Set<string> {
  if (node.anyOf !== undefined) return new Set(node.anyOf.flatMap((branch) => [...acceptedTypes(branch)]))
  if (node.type !== undefined) return new Set([node.type])
  return new Set((node.enum ?? (node.const === undefined ? [] : [node.const])).map((value) => typeof value))
}
