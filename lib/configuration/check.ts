/** From a document to a configuration: every fault in one error, or everything in its place. */
import type { Config } from '../document/config.js'
import { deepFreeze, isRecord } from '../json/plain-value.js'
import { assemble } from './normalize.js'
import { providerOf, type Provider } from '../document/database.js'
import { setting, type Env } from '../expressions/environment.js'
import { FaultList } from '../schema/faults.js'
import { toPlain } from '../document/plain.js'
import { read } from '../document/reader.js'
import { Root } from '../schema/root.js'
import { Sections } from '../document/sections.js'
import { versionOfDocument } from '../document/version.js'

export interface CheckOptions {
  /** What `{{env.NAME}}`, JWT_SECRET, DATABASE_URL and NODE_ENV are read from. Default: the process's environment. */
  readonly env?: Env | undefined
  /** The routes go into an app that has its own tokens and endpoints: neither is asked of the document. Default: false. */
  readonly embedded?: boolean | undefined
  /** Queries on tables that the document declares are compiled against them. Default: they wait for the database. */
  readonly declaredTables?: boolean | undefined
}

/** Where a configuration comes from. */
interface Origin {
  readonly env: Env
  readonly version: () => string
}

/** The configurations that were made here. */
const checked = new WeakMap<object, Origin>()

/**
 * Checks a document and fills in what it leaves out. The result is frozen. Throws a ConfigError that holds every fault
 * but those that only the database knows: tables and columns that routes name are judged when the routes are compiled.
 * Of a route whose members are wrong, templates, expressions and rules are judged once its members are right.
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
  const versionOnce = () => {
    version ??= versionOfDocument(plain)
    return version
  }
  checked.set(config, { env, version: versionOnce })
  return deepFreeze(config)
}

/** The value was returned by checkConfig or loadConfig. */
export function isChecked (value: unknown): value is Config {
  return typeof value === 'object' && value !== null && checked.has(value)
}

/** A configuration with some of its sections replaced by others that are normalised as well. */
export function withSections (config: Config, sections: Partial<Config>): Config {
  const result = deepFreeze({ ...config, ...sections })
  checked.set(result, { env: environmentOf(config), version: () => versionOf(config) })
  return result
}

/** The environment that a configuration was checked with; that of loadConfig has the settings of `.env` in it. */
export function environmentOf (config: Config): Env {
  return checked.get(config)?.env ?? process.env
}

/** Identifies the document as it is written. Of a thousand routes it takes some 30 ms, so it is made when it is needed. */
export function versionOf (config: Config): string {
  return checked.get(config)?.version() ?? versionOfDocument(config)
}

/** Settings stand in for what the document leaves out, as templates, so that faults in them name the setting. */
function withSettings (document: Readonly<Record<string, unknown>>, provider: Provider, env: Env): Readonly<Record<string, unknown>> {
  const result = { ...document }
  const { [provider]: section = {}, jwt = {} } = document
  if (provider !== 'embedded' && isRecord(section) && section.connectionString === undefined && isSet(env, 'DATABASE_URL')) {
    result[provider] = { ...section, connectionString: '{{env.DATABASE_URL}}' }
  }
  if (
    isRecord(jwt) && jwt.secret === undefined && jwt.publicKey === undefined && (jwt.algorithm ?? 'HS256') === 'HS256' &&
    isSet(env, 'JWT_SECRET')
  ) {
    result.jwt = { ...jwt, secret: '{{env.JWT_SECRET}}' }
  }
  return result
}

function isSet (env: Env, name: string): boolean {
  return (setting(env, name) ?? '') !== ''
}
