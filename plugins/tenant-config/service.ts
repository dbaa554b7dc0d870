/** The handlers of the endpoints of tenants' documents. */
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import type { Actor } from '../../lib/database/audit.js'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { type Precondition, requireMatch } from '../../lib/http/caching.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { listed } from '../../lib/schema/faults.js'
import { checkTenantDocument, keepsParts, type TenantDocumentContext } from '../../lib/tenant-document/index.js'
import { refuse } from '../../lib/tenant-document/read.js'
import type { TenantRecord } from '../tenancy/tenant.js'
import type { ConfigStore, SavedDocument } from './store.js'

const maxPointers = 5 // JSON pointers in a message

export interface Save {
  readonly tenant: Pick<TenantRecord, 'id' | 'createdAt'>
  readonly document: unknown
  readonly claims: Claims
  readonly actor: Actor
  /** The `If-Match` header. undefined: the save replaces any version. */
  readonly match: Precondition | undefined
  /** Checks the document without saving it. */
  readonly dryRun: boolean
  /** Checks the caller, its permission and the tenant again. */
  readonly renew: () => Promise<void>
  /** Whether the caller may use secrets. Other callers must leave the parts that read a secret unchanged. */
  readonly usesSecrets: () => boolean | Promise<boolean>
}

export type ConfigService = ReturnType<typeof createConfigService>

const nothing: SavedDocument = Object.freeze({ version: 0, document: Object.freeze({}), createdAt: new Date(0) })

/**
 * @param context the current rules and tables that a document is checked against
 * @param settled resolves when the saved document serves on this instance
 * @param secretsOf the tenant's secrets; expired ones are null
 */
export function createConfigService (
  store: ConfigStore,
  context: () => TenantDocumentContext,
  settled: (tenant: Owner) => Promise<void>,
  secretsOf: (tenant: Owner) => Promise<ReadonlyMap<string, string | null>>
) {
  return {
    /** The document in force, or that of the given version. Throws `notFound` for a version that is not kept. */
    async read (tenant: Owner, version?: number): Promise<SavedDocument> {
      const saved = await store.read(tenant, version)
      if (saved === undefined && version !== undefined) throw failure('notFound')
      return saved ?? nothing
    },

    versions: store.versions,

    /**
     * Throws `configInvalid` with every fault, and `routeConflict`. Throws `preconditionFailed` if the version in force does not meet
     * `match`, and `versionConflict` if another save happened in between. A caller or a tenant that ended during the check gets the
     * error of a new request. Returns the version of the saved document, or after a dry run
     * that in force; and the keys of secrets that the document reads, all and those without a value.
     */
    async save ({ tenant: found, document, claims, actor, match, dryRun, renew, usesSecrets }: Save) {
      const { id: tenant } = found
      const guard = (version: number) => requireMatch(match, version === 0 && match === '*' ? null : tagOf(version))
      /** The parts that read secrets were compared with the document before, and with no other. */
      const guardSame = (version: number) => {
        guard(version)
        if (version !== before.version) throw failure('versionConflict', { extras: { version } })
      }
      // Fails early, before the expensive check. Only the guard under the lock decides.
      const before = await store.read(tenant) ?? nothing
      guard(before.version)
      const { document: { workflows }, secrets, secretParts } = await checkTenantDocument(document, context(), createYielder(tenant)).catch(
        refuse
      )
      // The check of a large document can take minutes: its pieces wait for the requests of other tenants.
      await renew()
      const mayUseSecrets = secretParts.length === 0 || await usesSecrets()
      if (!mayUseSecrets && !keepsParts(secretParts, document, before.document)) {
        throw failure('forbidden', {
          message: `To add or change ${listed(secretParts, maxPointers)} you also need the permission secrets:write, because a secret is used there`
        })
      }
      const stored = secrets.length === 0 ? undefined : await secretsOf(tenant)
      const uses = { secretsDetected: secrets, secretsMissing: secrets.filter((key) => typeof stored?.get(key) !== 'string') }
      if (dryRun) return { version: before.version, ...uses }
      const version = await store.save({
        tenant: found,
        document: stringifyJson(document),
        secrets,
        workflows,
        claims,
        actor,
        guard: mayUseSecrets ? guard : guardSame
      })
      await settled(tenant)
      return { version, ...uses }
    }
  }
}

export function tagOf (version: number): string {
  return `"${version}"`
}
