/** Checks a document and makes a configuration from it. One error holds all faults. */
import { hash } from 'node:crypto'
import type { Config } from '../document/config.js'
import { type Provider, providerOf } from '../document/database.js'
import { toPlain } from '../document/json.js'
import { read } from '../document/reader.js'
import { Sections } from '../document/sections.js'
import { type Env, setting } from '../expressions/environment.js'
import { deepFreeze, isRecord } from '../json/plain-value.js'
import { toJsonText } from '../json/stringify.js'
import { kindOfName, redactTexts, tellsSecret } from '../log/redaction.js'
import { FaultList } from '../schema/faults.js'
import { Root } from '../schema/root.js'
import { Jwt } from '../schema/tokens.js'
import { assemble } from './assemble.js'

export interface CheckOptions {
  /** The source of `{{env.NAME}}`, JWT_SECRET, DATABASE_URL and NODE_ENV. Default: the process's environment. */
  readonly env?: Env | undefined
  /** The routes are registered in an app with its own tokens and endpoints, so the document need not declare them. Default: false. */
  readonly embedded?: boolean | undefined
  /** Queries on declared tables are compiled against their declarations. Default: they wait for the database. */
  readonly declaredTables?: boolean | undefined
}

/** The configurations that this module has created. */
const checked = new WeakMap<object, { readonly env: Env, readonly version: () => string }>()

/**
 * Checks a document and fills in its defaults. The result is frozen. Throws a ConfigError with every fault, except those that
 * only the database can show: a route's tables and columns are checked when the route is compiled. The templates, expressions and
 * rules of a route are checked once its members are valid.
 */
export function checkConfig (
  document: unknown,
  { env = process.env, embedded = false, declaredTables = false }: CheckOptions = {}
): Config {
  const faults = new FaultList()
  const plain = toPlain(document, faults)
  const given = isRecord(plain) ? plain : {}
  const provider = providerOf(given, env)
  const value = read(Root, isRecord(plain) && !embedded ? withSettings(plain, provider, env) : plain, '', { faults, env })
  const sections = new Sections(value, faults.faults)
  const config = assemble(sections, { provider, env, faults, embedded, declaredTables })
  faults.throwIfAny()
  if (config === undefined) throw new Error('a section of the document is missing without a fault')
  let version: string | undefined
  checked.set(config, { env, version: () => (version ??= versionOfDocument(plain)) })
  return deepFreeze(config)
}

/** Whether checkConfig or loadConfig returned the value. */
export function isChecked (value: unknown): value is Config {
  return typeof value === 'object' && value !== null && checked.has(value)
}

/** Replaces some sections of a configuration by other normalized ones. */
export function withSections (config: Config, sections: Partial<Config>): Config {
  const result = deepFreeze({ ...config, ...sections })
  checked.set(result, { env: environmentOf(config), version: () => versionOf(config) })
  return result
}

/** The environment of a configuration's check. For loadConfig it includes the settings of `.env`. */
export function environmentOf (config: Config): Env {
  return checked.get(config)?.env ?? process.env
}

/** Identifies the document as written. It is computed on demand, because it takes about 30 ms for a thousand routes. */
export function versionOf (config: Config): string {
  return checked.get(config)?.version() ?? versionOfDocument(config)
}

/** Adds settings for members that the document omits. They are added as templates, so that their faults name the setting. */
function withSettings (document: Readonly<Record<string, unknown>>, provider: Provider, env: Env): Readonly<Record<string, unknown>> {
  const result = { ...document }
  const { [provider]: section = {}, jwt = {} } = document
  if (provider !== 'embedded' && isRecord(section) && section.connectionString === undefined && isSet(env, 'DATABASE_URL')) {
    result[provider] = { ...section, connectionString: '{{env.DATABASE_URL}}' }
  }
  if (
    isRecord(jwt) && jwt.secret === undefined && jwt.publicKey === undefined && isSet(env, 'JWT_SECRET') &&
    (read(Jwt.properties.algorithm, jwt.algorithm, '', { faults: new FaultList(), env }) ?? 'HS256') === 'HS256'
  ) {
    result.jwt = { ...jwt, secret: '{{env.JWT_SECRET}}' }
  }
  return result
}

function isSet (env: Env, name: string): boolean {
  return (setting(env, name) ?? '') !== ''
}

const length = 16 // characters in hexadecimal

/** A digest of the document with its settings by name, in any order of members, and without its secrets: it reveals nothing of them. */
function versionOfDocument (document: unknown): string {
  return hash('sha256', redactTexts(textOf('', document))).slice(0, length)
}

/** As JSON, with sorted members. */
function textOf (name: string, value: unknown): string {
  // All values of credentials may be secret.
  if (isRecord(value) && name !== 'credentials') {
    let text = ''
    for (const member of Object.keys(value).sort()) {
      text += `${text === '' ? '' : ','}${toJsonText(member)}:${textOf(member, value[member])}`
    }
    return `{${text}}`
  }
  if (Array.isArray(value)) return `[${value.map((item: unknown) => textOf(name, item)).join(',')}]`
  const text = toJsonText(value) ?? 'null'
  return tellsSecret(kindOfName(name), text) ? '"[Redacted]"' : text
}
