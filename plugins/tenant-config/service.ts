/** What the endpoints of tenants' documents do (SPEC "Tenant configuration"). */
import type { Actor } from '../../lib/audit.js'
import type { TenantDocumentContext } from '../../lib/tenant-document/index.js'
import type { ConfigStore, SavedDocument, Version } from './store.js'
import type { Precondition } from './if-match.js'
import { ConfigError } from '../../lib/config/index.js'
import { failure } from '../../lib/errors.js'
import { checkTenantDocument } from '../../lib/tenant-document/index.js'

const maxDetails = 100

export interface Save {
  readonly tenant: string
  readonly document: unknown
  readonly actor: Actor
  /** The versions of `If-Match`; undefined saves over any. */
  readonly versions: Precondition | undefined
  /** Check only. */
  readonly dryRun: boolean
  /** The caller may use secrets. Without it the parts that name one are those of the document in force. */
  readonly usesSecrets: () => boolean | Promise<boolean>
}

export interface Saved {
  /** That of the document; after a dry run the one in force. */
  readonly version: number
  /** Keys that the document names as `{{secret:KEY}}`. */
  readonly secretsDetected: readonly string[]
}

export interface ConfigService {
  /** The document in force, or that of a version that is kept; throws `notFound` for a version that is not. */
  read (tenant: string, version?: number): Promise<SavedDocument>
  versions (tenant: string, page: { limit: number, offset: number }): Promise<{ data: Version[], total: number }>
  /** Throws `configInvalid` with every fault, `routeConflict`, and `versionConflict` where the version in force is none of `versions`. */
  save (save: Save): Promise<Saved>
}

const nothing: SavedDocument = Object.freeze({ version: 0, document: Object.freeze({}), createdAt: new Date(0) })

/**
 * @param context what a document is checked against at this moment
 * @param settled resolves when what was saved serves on this instance
 */
export function createConfigService (store: ConfigStore, context: () => TenantDocumentContext, settled: (tenant: string) => Promise<void>): ConfigService {
  return {
    async read (tenant, version) {
      const saved = await store.read(tenant, version)
      if (saved === undefined && version !== undefined) throw failure('notFound')
      return saved ?? nothing
    },

    versions: (tenant, page) => store.versions(tenant, page),

    async save ({ tenant, document, actor, versions, dryRun, usesSecrets }) {
      const guard = (version: number) => {
        if (versions !== undefined && !isMet(versions, version)) throw failure('versionConflict', { extras: { version } })
      }
      /** What was found to be left as it is, is so in no other document. */
      const guardSame = (version: number) => {
        guard(version)
        if (version !== before.version) throw failure('versionConflict', { extras: { version } })
      }
      // Before the work of the check; and under the lock once more, which alone counts.
      const before = await store.read(tenant) ?? nothing
      guard(before.version)
      const { secrets } = await checkTenantDocument(document, context()).catch(refuse)
      const leftSecrets = await refuseSecrets(document, before, usesSecrets)
      if (dryRun) return { version: before.version, secretsDetected: secrets }
      const version = await store.save({ tenant, document: JSON.stringify(document), actor, guard: leftSecrets ? guardSame : guard })
      await settled(tenant)
      return { version, secretsDetected: secrets }
    }
  }
}

/** `*` is met by any document, and by none where nothing was saved (RFC 9110, 13.1.1). */
function isMet (versions: Precondition, version: number): boolean {
  return versions === '*' ? version > 0 : versions.includes(version)
}

/**
 * A route can write a secret where its caller reads it, and credentials can send it to another address: whoever may not
 * use secrets leaves all that names one as it is. Whether that is why the document may be saved.
 */
async function refuseSecrets (document: unknown, before: SavedDocument, usesSecrets: Save['usesSecrets']): Promise<boolean> {
  const parts = partsWithSecrets(document)
  if (parts.length === 0 || await usesSecrets()) return false
  const known = new Set(partsWithSecrets(before.document))
  if (parts.every((part) => known.has(part))) return true
  throw failure('forbidden', { message: 'What names a secret in a configuration is written or changed by who holds the permission secrets:write too' })
}

/** The routes, workflows, credentials, custom integrations and webhooks that may name a secret, as JSON; of a text that is escaped and has quotes in it, no pattern tells for certain. */
function partsWithSecrets (document: unknown): string[] {
  const { routes, workflows, credentials, customIntegrations, webhooks }: { routes?: unknown, workflows?: unknown, credentials?: unknown, customIntegrations?: unknown, webhooks?: unknown } = Object(document)
  const parts = [routes, workflows, customIntegrations, webhooks].flatMap((list: unknown) => Array.isArray(list) ? list : []).map((part: unknown) => JSON.stringify(part))
  // A secret stands for the setting of its name in credentials, and connectors with OAuth 2.0 keep tokens as secrets that nothing names.
  const own = Object.entries(Object(credentials)).map((part) => JSON.stringify(part)).filter((text) => /\{\{|\$\{/.test(text))
  return [...parts.filter((text) => (text.includes('{{') && text.includes('secret')) || text.includes('"oauth2"')), ...own]
}

/** The faults of a document as a caller sees those of a body. */
export function refuse (error: unknown): never {
  if (!(error instanceof ConfigError)) throw error
  const details = error.faults.slice(0, maxDetails).map(({ pointer, message, suggestion }) => ({
    path: pointer,
    message: suggestion === undefined ? message : `${message}; did you mean "${suggestion}"?`,
    keyword: 'config'
  }))
  throw failure('configInvalid', { extras: { details } })
}
