/**
 * Tokens of OAuth 2.0: renewed before they expire and when a service refuses one, by one process at a time. A tenant's tokens are its
 * secrets; the platform's stay in memory.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { lruOptions } from '../../lib/cache/lru-options.js'
import { createWarned } from '../../lib/cache/warned.js'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { isOwned } from '../../lib/connectors/credentials.js'
import type { CompiledCall, CompiledOAuth2 } from '../../lib/connectors/types.js'
import { noActor } from '../../lib/database/audit.js'
import { isOutage } from '../../lib/database/failures.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { CompiledValue, Scope } from '../../lib/expressions/types.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'
import { optional } from '../../lib/plugin/define.js'
import { createLeases } from './leases.js'
import { createTokenRequest, type GrantedToken } from './token-request.js'

const maxRemembered = 10_000 // tokens
const earlyMs = 60_000 // before a token ends, or a tenth of its life if that is less
const renewalMs = 30_000 // that a call without a valid token waits for another process
const lateMs = 2000 // that a call waits for a new token while the old one is valid
const propagationMs = 2000 // until every process knows a stored secret
const pollMs = 100
const unstoredMs = 10_000 // after which a token that an outage kept from being stored is renewed, and then stored

export type Tokens = ReturnType<typeof createTokens>

/** The current tokens. */
interface Current {
  readonly access: string | null
  readonly refresh: string | null
}

interface Kept extends Current {
  /** The stored tokens that these replace: they could not be stored. null for the platform's. */
  readonly instead: Current | null
}

/** The place of a call's tokens. */
interface Subject {
  readonly call: CompiledCall
  readonly oauth2: CompiledOAuth2
  readonly scope: Scope
  /** The caller's tenant. */
  readonly tenant: Owner
  /** The tenant whose secrets store the tokens; null: they stay in memory. */
  readonly owner: Owner | null
  /** Identifies the tokens. */
  readonly id: string
  readonly log: FastifyBaseLogger
}

export function createTokens (app: FastifyInstance, now: () => number) {
  const request = createTokenRequest(app.outbound)
  // Without the plugin, all tokens stay in memory.
  const secrets = optional(app, 'secrets')
  const leases = createLeases(app.engine.kyselyFor)
  /** The platform's, and those of tenants that could not be stored. */
  const kept = new LRUCache<string, Kept>(lruOptions(maxRemembered))
  /** The due time of a token, in ms. */
  const due = new LRUCache<string, { readonly access: string, readonly at: number }>(lruOptions(maxRemembered))
  const renewals = new Map<string, Promise<string>>()
  const warned = createWarned()

  /** The scope with the current secrets of the owner. */
  async function scopeOf ({ owner, scope }: Subject): Promise<Scope> {
    const values = owner === null ? undefined : await secrets()?.values(owner)
    return values === undefined ? scope : { ...scope, secrets: values }
  }

  async function currentOf (subject: Subject): Promise<Current> {
    const { owner, id } = subject
    const inMemory = kept.get(id)
    if (inMemory !== undefined && owner === null) return inMemory
    const stored = await storedOf(subject)
    // A secret that the tenant has changed since counts more.
    if (inMemory !== undefined && isSame(inMemory.instead, stored)) return inMemory
    kept.delete(id)
    return stored
  }

  async function storedOf (subject: Subject): Promise<Current> {
    const { oauth2, owner } = subject
    const inside = await scopeOf(subject)
    const stored = (key: string) => owner === null ? null : textOf(inside.secrets.get(key))
    return {
      access: stored(oauth2.accessTokenKey) ?? resolved(oauth2.accessToken, inside),
      refresh: oauth2.refreshToken === null ? null : stored(oauth2.refreshTokenKey) ?? resolved(oauth2.refreshToken, inside)
    }
  }

  async function dueAt ({ owner, id, oauth2 }: Subject, access: string): Promise<number> {
    const known = due.get(id)
    if (known?.access === access) return known.at
    const row = owner === null ? undefined : await leases.read(owner, oauth2.accessTokenKey)
    const at = row?.tokenHash?.equals(tokenHash(access)) === true ? row.renewAt?.getTime() ?? Infinity : Infinity
    due.set(id, { access, at })
    return at
  }

  /** One renewal at a time. Calls meanwhile wait for it. */
  async function renew (subject: Subject, old: string | null): Promise<string> {
    const begun = renewals.get(subject.id)
    // It may have begun before the refused token existed.
    if (begun !== undefined) {
      const access = await begun
      if (access !== old) return access
    }
    return await (renewals.get(subject.id) ?? begin(subject, old))
  }

  function begin (subject: Subject, old: string | null): Promise<string> {
    const renewal = (subject.owner === null ? renewHere(subject, old) : renewAlone(subject, subject.owner, old)).finally(() =>
      renewals.delete(subject.id)
    )
    renewals.set(subject.id, renewal)
    return renewal
  }

  async function renewHere (subject: Subject, old: string | null): Promise<string> {
    const current = await currentOf(subject)
    if (current.access !== null && current.access !== old) return current.access
    const granted = await ask(subject, current)
    kept.set(subject.id, {
      access: granted.access,
      refresh: subject.oauth2.refreshToken === null ? null : granted.refresh ?? current.refresh,
      instead: null
    })
    due.set(subject.id, { access: granted.access, at: dueOf(granted) ?? Infinity })
    return granted.access
  }

  async function renewAlone (subject: Subject, owner: Owner, old: string | null): Promise<string> {
    const key = subject.oauth2.accessTokenKey
    const holder = randomUUID()
    for (const endsAt = performance.now() + renewalMs; performance.now() < endsAt; await pause(pollMs)) {
      const { access } = await currentOf(subject)
      if (access !== null && access !== old) return access
      const lease = await leases.take(owner, key, holder)
      if (lease === null) continue
      try {
        const isOld = lease.tokenHash === null || (old !== null && lease.tokenHash.equals(tokenHash(old)))
        const newer = isOld ? null : await storedToken(subject, old)
        if (newer !== null) return newer
        const used = await currentOf(subject)
        const granted = await ask(subject, used)
        const renewAt = dueOf(granted)
        // Noted before the token itself is stored, so that its readers know its due time.
        const noted = { tokenHash: tokenHash(granted.access), renewAt: renewAt === null ? null : new Date(renewAt) }
        const isLate = await store(subject, owner, used, granted, () => leases.note(owner, key, holder, noted))
        due.set(subject.id, { access: granted.access, at: Math.min(renewAt ?? Infinity, isLate ? now() + unstoredMs : Infinity) })
        return granted.access
      } finally {
        // Otherwise it expires: a token that was granted is still good.
        await leases.release(owner, key, holder).catch((err: unknown) => subject.log.warn({ err, tenant: owner, key }, 'a lease was not released'))
      }
    }
    throw failure('providerTimeout')
  }

  /** A token that another process has stored, whose notice may be on its way; null if the secret was replaced by hand. */
  async function storedToken (subject: Subject, old: string | null): Promise<string | null> {
    for (const endsAt = performance.now() + propagationMs; performance.now() < endsAt; await pause(pollMs)) {
      const { access } = await currentOf(subject)
      if (access !== null && access !== old) return access
    }
    return null
  }

  async function ask (subject: Subject, { refresh }: Current): Promise<GrantedToken> {
    const { call, oauth2, tenant } = subject
    const inside = await scopeOf(subject)
    const missing = (name: string) =>
      failure('credentialsRequired', {
        message: `The integration ${call.connector} has no credentials: the value of \`${name}\` is empty`
      })
    const needed = (name: 'tokenUrl' | 'clientId' | 'clientSecret') => {
      const text = resolved(oauth2[name], inside)
      if (text === null) throw missing(name)
      return text
    }
    // Without the declared token, a call would have another identity.
    if (refresh === null && oauth2.refreshToken !== null) throw missing('refreshToken')
    const grant = {
      tenant,
      trusted: oauth2.trusted,
      tokenUrl: needed('tokenUrl'),
      clientId: needed('clientId'),
      clientSecret: needed('clientSecret'),
      refreshToken: refresh,
      scope: resolved(oauth2.scope, inside)
    }
    try {
      return await request(grant)
    } catch (error) {
      // After a new authorization, the declared token differs from the stored one.
      const declared = resolved(oauth2.refreshToken, inside)
      if (
        declared === null || declared === refresh || !isFailure(error, 'providerFailed') || error.extras['status'] === undefined
      ) { throw error }
      const granted = await request({ ...grant, refreshToken: declared })
      // The one that was refused must not be stored.
      return { ...granted, refresh: granted.refresh ?? declared }
    }
  }

  /**
   * The refresh token first: without it nothing can be renewed; without the access token, another renewal follows. Stores nothing if the
   * tenant has changed or deleted the tokens that the renewal used. Whether an outage kept the tokens in memory.
   */
  async function store (
    subject: Subject,
    owner: Owner,
    used: Current,
    { access, refresh }: GrantedToken,
    note: () => Promise<void>
  ): Promise<boolean> {
    const { id, oauth2: { accessTokenKey, refreshTokenKey }, log } = subject
    // The one in use may be newer than the stored one.
    const renewed = subject.oauth2.refreshToken === null ? null : refresh ?? used.refresh
    let stored = kept.get(id)?.instead ?? used
    // From here on every failure keeps the tokens: the grant has used up the refresh token.
    try {
      await note()
      if (!isSame(await currentOf(subject), used)) return false
      stored = await storedOf(subject)
      const service = secrets()
      if (renewed !== null && renewed !== stored.refresh) {
        await service?.put(owner, { key: refreshTokenKey, value: renewed }, noActor)
        stored = { ...stored, refresh: renewed }
      }
      await service?.put(owner, { key: accessTokenKey, value: access }, noActor)
      kept.delete(id)
      return false
    } catch (err) {
      log.error({ err, tenant: owner, key: accessTokenKey }, 'a renewed token could not be stored as a secret')
      // For example beyond the plan: this process continues with the token in memory, as long as the tenant exists.
      if (!isFailure(err, 'tenantUnknown')) kept.set(id, { access, refresh: renewed, instead: stored })
      return isOutage(err)
    }
  }

  function dueOf ({ life }: GrantedToken): number | null {
    return life === null ? null : now() + life * 1000 - Math.min(earlyMs, life * 100)
  }

  return {
    /** The token of one call. `tenant`: that of the call; the token may still be the platform's. */
    of (call: CompiledCall, oauth2: CompiledOAuth2, scope: Scope, tenant: Owner, log: FastifyBaseLogger) {
      const owner = secrets() === null ? null : ownerOf(call, oauth2, scope, tenant)
      // A later tenant with the id gets no token of an earlier one.
      const life = scope.tenant?.life ?? tenant
      const id = owner === null ? idInMemory(call, oauth2, scope, life) : `${life} ${oauth2.accessTokenKey}`
      const subject = { call, oauth2, scope, tenant, owner, id, log }
      return {
        /** Renewed if it is due. `left`: the milliseconds that the call has. */
        async get (left: number): Promise<string> {
          const { access } = await currentOf(subject)
          if (access === null) return await renew(subject, null)
          const at = await dueAt(subject, access)
          if (now() < at) return access
          const renewal = renew(subject, access).catch((err: unknown) => {
            const level = warned.levelOf(tenant, call.origin, call.connector)
            log[level]({ err, integration: call.connector }, 'a token that is due could not be renewed')
            return access
          })
          // It is early: the service may still accept the old one, and the renewal continues without the call.
          const isEarly = now() < at + earlyMs
          return isEarly && !await settlesWithin(renewal, Math.min(lateMs, left / 5)) ? access : await renewal
        },
        /** Another token than the refused one. */
        renew: (refused: string) => renew(subject, refused)
      }
    }
  }
}

function isSame (one: Current | null, other: Current): boolean {
  return one?.access === other.access && one.refresh === other.refresh
}

/**
 * The tenant whose secrets the tokens are; null for the platform: tenants must not store its tokens, since they could send them anywhere.
 */
function ownerOf ({ origin }: CompiledCall, { refreshToken, clientSecret }: CompiledOAuth2, scope: Scope, tenant: Owner): Owner | null {
  if (tenant === platformRef) return null
  return origin === 'tenant' || isOwned(refreshToken ?? clientSecret, scope) ? tenant : null
}

/** By all credentials: a caller with other secrets has another token. */
function idInMemory ({ origin, connector }: CompiledCall, oauth2: CompiledOAuth2, scope: Scope, life: string): string {
  const { tokenUrl, clientId, clientSecret, accessToken, refreshToken, scope: wanted } = oauth2
  const texts = [tokenUrl, clientId, clientSecret, accessToken, refreshToken, wanted].map((value) => resolved(value, scope))
  return tokenHash(JSON.stringify([origin === 'tenant' ? life : '', connector, ...texts])).toString('base64')
}

/** The text; null without a value. */
function resolved (value: CompiledValue | null, scope: Scope): string | null {
  if (value === null) return null
  const isMissing = value.references.some(({ source, path, fallback = '' }) =>
    source === 'secret' && fallback.startsWith('{{') && scope.secrets.get(String(path[0])) === undefined
  )
  return isMissing ? null : textOf(value.evaluate(scope))
}

function textOf (value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
