/** `app.secrets`: the encrypted secrets of tenants, with versions and audit entries. */
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { createUseCounter } from '../../lib/concurrency/use-counter.js'
import { type Actor, auditActions } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { type Precondition, requireMatch, tagOf } from '../../lib/http/caching.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { Plan } from '../../lib/plans/plans.js'
import { optional } from '../../lib/plugin/define.js'
import { listen } from '../../lib/plugin/lifecycle.js'
import type { SecretCipher } from '../../lib/secrets/cipher.js'
import { dayMs } from '../../lib/time/spans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { createTenantAudit } from '../audit/service.js'
import { plansOf } from '../plans/plans-of.js'
import { refuseBeyond, refuseBytes, refuseEarlier, refuseRotation } from './limits.js'
import { createSecretStore, type ListedRow, type SecretRow, type SecretStore } from './store.js'
import { createTenantValues, type SecretValues } from './values.js'

export type { SecretValues } from './values.js'

export const maxValueBytes = 65_536 // of UTF-8
export const maxMetadataBytes = 4096 // of JSON
export const maxGraceDays = 90
const maxListed = 1000 // secrets of a page

const prefix = 'secret.'
const audited = auditActions.filter((action) => action.startsWith(prefix))

/** The stored properties. Omitted ones stay as they are, except an expiry in the past, which is removed. */
export interface SecretInput {
  readonly key: string
  /** 1 to 65,536 bytes of UTF-8. */
  readonly value: string
  /** At most 4,096 bytes of JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /** In the future; null for never. */
  readonly expiresAt?: Date | null | undefined
}

export interface Rotation {
  readonly key: string
  readonly newValue: string
  /** 0 to 90 days in which the earlier value is still accepted. */
  readonly gracePeriodDays: number
  /** Ends the grace periods of earlier rotations now. Default: false. */
  readonly endEarlier?: boolean | undefined
}

/** An action on a secret. */
export interface AuditRow {
  readonly key: string
  /** The action in the audit log, without `secret.`. */
  readonly action: string
  readonly userId: string | null
  readonly count: number
  readonly timestamp: Date
}

/** The type of `app.secrets`. The tenant is the first argument, the actor the last. */
export interface Secrets {
  /** All live secrets of the tenant; synchronous if they are cached, which is for at most a minute. Counts no use. */
  values(tenant: string): SecretValues | Promise<SecretValues>
  /** Counts and audits a use of the values of these keys; keys without a value do not count. */
  accessed(tenant: string, keys: readonly string[]): void
  /** The value, which counts as a use; null if it has expired, undefined without one. */
  get(tenant: string, key: string): Promise<string | null | undefined>
  /** The value and earlier values in their grace periods, at most ten: to verify signatures of incoming requests. Counts as a use. */
  accepted(tenant: string, key: string): Promise<string[]>
  /** A page by key and the total; with `search`, only secrets whose key contains the text. */
  page(
    tenant: string,
    page: Page & { readonly search?: string | undefined }
  ): Promise<{ readonly secrets: ListedRow[], readonly total: number, readonly tag: string }>
  /** By key, at most a thousand. */
  list(tenant: string, page?: { readonly limit?: number | undefined, readonly offset?: number | undefined }): Promise<ListedRow[]>
  /** Throws `validationFailed`, `planLimit`, `tenantUnknown`, and `conflict` beyond the bounds of every tenant. */
  put(tenant: string, input: SecretInput, actor: Actor, match?: Precondition): Promise<'created' | 'updated'>
  /**
   * Returns the end of the earlier value, which is no later than the expiry of the secret. Throws `validationFailed`, `planLimit`,
   * `notFound`, `tenantUnknown`, `conflict`.
   */
  rotate(tenant: string, rotation: Rotation, actor: Actor, match?: Precondition): Promise<Date>
  /** Throws `notFound`, `tenantUnknown`. */
  delete(tenant: string, key: string, actor: Actor, match?: Precondition): Promise<void>
  /** The newest first, as far back as the plan keeps them. */
  audit(tenant: string, query: Page & { readonly key?: string | undefined }): Promise<{ data: AuditRow[], total: number }>
}

/**
 * The service. The app closes after the remaining counts have been written.
 *
 * @param now the clock, in milliseconds since 1970
 */
export function createSecrets (app: FastifyInstance, cipher: SecretCipher, now: () => number): Secrets {
  const { db, engine, events, log } = app
  const plans = plansOf(app)
  const webhooks = optional(app, 'webhooks')
  const store = createSecretStore(db)
  const accesses = createUseCounter({
    noun: 'secrets',
    flushAfter: 3000,
    maxKeys: 50_000,
    write: (uses) => store.accessed(uses, new Date(now())),
    log
  })
  const values = createTenantValues(app, store, cipher, now, auditExpired)
  const readAudit = createTenantAudit({ dbFor: engine.kyselyFor, plans, now })
  const audits = new Set<Promise<unknown>>()
  // The deletion of a tenant is a change too.
  listen(app, events, { secrets: values.forget, gap: values.clear })
  app.addHook('onClose', async () => {
    await Promise.all([accesses.close(), ...audits])
  })

  /** Audits expiry in the background: calls do not wait for it. */
  function auditExpired (tenant: Owner): void {
    const audit = store.expire(tenant, new Date(now()))
      .catch((err: unknown) => log.warn({ err, tenant }, 'the expiry of secrets could not be written to the audit log; retrying'))
      .finally(() => audits.delete(audit))
    audits.add(audit)
  }

  function accessed (tenant: Owner, keys: readonly string[]): void {
    const known = values.peek(tenant)?.values
    const at = now()
    for (const key of keys) if (known === undefined || typeof known.get(key) === 'string') accesses.count(tenant, key, at)
  }

  /** Runs the work under the lock of the tenant's secrets, with the tenant's plan, and notifies every server. */
  function change<T> (
    tenant: Owner,
    match: Precondition | undefined,
    work: (store: SecretStore, plan: Plan, transaction: Kysely<SystemTables>) => Promise<T>
  ): Promise<T> {
    return events.change({ topic: 'secrets', tenant }, async (transaction) => {
      const own = createSecretStore(transaction)
      const tier = await own.lockPlan(tenant)
      if (tier === undefined) throw failure('tenantUnknown')
      if (match !== undefined) requireMatch(match, tagOf(await own.state(tenant)))
      return await work(own, plans.of(tier), transaction)
    })
  }

  /** The future expiry; a past one is noted before it is removed. */
  async function remainingExpiry (own: SecretStore, tenant: Owner, { expiresAt }: SecretRow, at: Date): Promise<Date | null> {
    if (expiresAt === null || expiresAt > at) return expiresAt
    await own.expire(tenant, at)
    return null
  }

  /** The store of the tenant, after uses until now are counted and expired secrets are marked. */
  async function settled (tenant: Owner): Promise<ReturnType<typeof createSecretStore>> {
    await accesses.flush()
    const own = createSecretStore(engine.kyselyFor(tenant))
    await own.expire(tenant, new Date(now()))
    return own
  }

  return {
    values (tenant: Owner) {
      return whenKnown(values.get(tenant), (loaded) => loaded.values)
    },
    accessed,
    async get (tenant: Owner, key) {
      const value = (await values.get(tenant)).values.get(key)
      if (typeof value === 'string') accessed(tenant, [key])
      return value
    },
    async accepted (tenant: Owner, key) {
      const { values: current, previous } = await values.get(tenant)
      const value = current.get(key)
      if (typeof value !== 'string') return []
      accessed(tenant, [key])
      const time = now()
      return [...new Set([value, ...(previous.get(key) ?? []).flatMap((earlier) => time < earlier.until ? [earlier.value] : [])])]
    },
    async list (tenant: Owner, { limit = maxListed, offset = 0 } = {}) {
      return await (await settled(tenant)).list(tenant, { limit: Math.min(limit, maxListed), offset })
    },
    async page (tenant: Owner, page) {
      const own = await settled(tenant)
      const [secrets, total, state] = await Promise.all([own.list(tenant, page), own.count(tenant, page.search), own.state(tenant)])
      return { secrets, total, tag: tagOf(state) }
    },
    async put (tenant: Owner, { key, value, metadata, expiresAt }, actor, match) {
      const at = new Date(now())
      refuseValue(value, '/body/value')
      refuseMetadata(metadata)
      refusePast(expiresAt, at)
      return await change(tenant, match, async (own, plan) => {
        const there = await own.find(tenant, key)
        const version = (there?.version ?? 0) + 1
        const sealed = cipher.encrypt({ tenant, key, version }, value)
        const { others, bytes, earlier } = await own.usage(tenant, key)
        refuseBytes(bytes + sealed.length + earlier + maxMetadataBytes)
        if (there === undefined || there.deletedAt !== null) {
          refuseBeyond(plans, plan, others)
          await own.create(tenant, key, { version, value: sealed, metadata: metadata ?? {}, expiresAt: expiresAt ?? null }, at)
          await own.audit(tenant, key, 'create', actor, at)
          return 'created'
        }
        const remaining = await remainingExpiry(own, tenant, there, at)
        // The end of a secret is the end of its rotated values too.
        if (there.expiresAt !== null && remaining === null) await own.endEarlier(tenant, key)
        await own.replace(tenant, key, {
          version,
          value: sealed,
          metadata: metadata ?? there.metadata,
          expiresAt: expiresAt === undefined ? remaining : expiresAt
        }, at)
        await own.audit(tenant, key, 'update', actor, at)
        return 'updated'
      })
    },
    async rotate (tenant: Owner, { key, newValue, gracePeriodDays, endEarlier = false }, actor, match) {
      const at = new Date(now())
      const until = new Date(at.getTime() + gracePeriodDays * dayMs)
      refuseValue(newValue, '/body/newValue')
      const validUntil = await change(tenant, match, async (own, plan, transaction) => {
        refuseRotation(plans, plan)
        const there = await own.find(tenant, key)
        if (there === undefined || there.deletedAt !== null) throw failure('notFound')
        const version = there.version + 1
        const expiresAt = await remainingExpiry(own, tenant, there, at)
        // An expired value is no longer accepted, even after a rotation.
        const hasExpired = there.expiresAt !== null && expiresAt === null
        const previousValidUntil = gracePeriodDays === 0 || hasExpired ? undefined : earlier(until, expiresAt)
        if (endEarlier || hasExpired) await own.endEarlier(tenant, key)
        else if (previousValidUntil !== undefined) refuseEarlier(await own.ends(tenant, key, at))
        const value = cipher.encrypt({ tenant, key, version }, newValue)
        const { bytes, own: before, earlier: others } = await own.usage(tenant, key)
        refuseBytes(bytes + value.length + maxMetadataBytes + others + (previousValidUntil === undefined ? 0 : before))
        await own.replace(tenant, key, { version, value, metadata: there.metadata, expiresAt, previousValidUntil }, at)
        await own.audit(tenant, key, 'rotate', actor, at)
        await webhooks()?.emit(transaction, { tenant, type: 'secret.rotated', subject: `secret:${key}`, data: { key }, at })
        return previousValidUntil ?? at
      })
      webhooks()?.wake()
      return validUntil
    },
    async delete (tenant: Owner, key, actor, match) {
      // The audit log contains the uses until now, and no uses of a later secret with the same key.
      await accesses.flush()
      const at = new Date(now())
      await change(tenant, match, async (own) => {
        if (!await own.remove(tenant, key, at)) throw failure('notFound')
        await own.audit(tenant, key, 'delete', actor, at)
      })
    },
    async audit (tenant: Owner, { limit, offset, key }) {
      await settled(tenant)
      const { data, total } = await readAudit(tenant, { actions: audited, target: key }, { limit, offset })
      return {
        data: data.map(({ target, action, userId, count, timestamp }) => ({
          key: target ?? '',
          action: action.slice(prefix.length),
          userId,
          count,
          timestamp
        })),
        total
      }
    }
  }
}

function earlier (one: Date, other: Date | null): Date {
  return other !== null && other < one ? other : one
}

function refuseValue (value: string, path: string): void {
  if (value === '') throw invalidInput(path, 'must not be empty', 'minLength')
  if (Buffer.byteLength(value) > maxValueBytes) throw invalidInput(path, `must have at most ${maxValueBytes} bytes`, 'maxLength')
  // A lone surrogate is not a character, and would be stored as another one.
  if (/\p{Surrogate}/u.test(value)) throw invalidInput(path, 'must not contain half of a surrogate pair', 'format')
}

function refuseMetadata (metadata: Readonly<Record<string, unknown>> | undefined): void {
  if (metadata !== undefined && Buffer.byteLength(stringifyJson(metadata)) > maxMetadataBytes) {
    throw invalidInput('/body/metadata', `must have at most ${maxMetadataBytes} bytes as JSON`, 'maxProperties')
  }
}

function refusePast (expiresAt: Date | null | undefined, at: Date): void {
  // The comparison is false for an invalid date, too.
  if (expiresAt !== undefined && expiresAt !== null && !(expiresAt > at)) {
    throw invalidInput('/body/expiresAt', 'must be a date and time in the future', 'format')
  }
}
