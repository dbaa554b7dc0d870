/** `app.sessions`: tokens that begin a session, and early ends of sessions. */
import { hash, randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Actor, type AuditEntry, noActor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { sequenceClaim, sessionClaim, sessionOf } from '../../lib/identity/session-claims.js'
import { type Owner, platformRef, tenantOfToken, tenantRef } from '../../lib/identity/tenant-ref.js'
import { tokenHash } from '../../lib/identity/token-hash.js'
import { isUuid } from '../../lib/identity/uuid.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { dayMs } from '../../lib/time/spans.js'
import { tokenInvalid } from '../auth/errors.js'
import { partialLifetime } from '../auth/partial.js'
import type { ListOwner, Owners } from './owners.js'
import { createRefreshStore, createRefreshToken, readRefreshToken, type RefreshToken, type SessionEnds, type SessionUser, textOf } from './refresh-tokens.js'
import { endOf, futureIssue, isAfter, keptMark, later, sessionMark, subjectOf, tolerance } from './sequence.js'
import type { RevocationStore } from './store.js'

export const maxTokens = 50 // of one user that end one by one; one more ends everything of the user
export const maxRows = 20_000 // of one owner; one more ends everything of the owner's users
const leastLife = 7 * dayMs // ms that a logout everywhere is kept: tokens of other issuers may live longer than our own
const everyUser = Buffer.alloc(0)

/** The user of a new session. */
export interface SessionClaims {
  readonly sub: string
  readonly role: string
  readonly tenant_id?: string | undefined
  readonly email?: string | undefined
  /** The user has confirmed the address. */
  readonly email_verified?: boolean | undefined
  /** How the user has authenticated (RFC 8176). */
  readonly amr?: readonly string[] | undefined
}

/** A session with a refresh token. */
export interface BegunSession {
  readonly token: string
  /** Seconds that the token lives. */
  readonly expiresIn: number
  readonly refreshToken: string
}

/**
 * What to end of a user: `tokens` keeps the sessions, so that refresh tokens give new tokens; `sessions` ends both. The
 * refresh token of the session of `kept` stays, and so do the tokens of this session with the same sequence.
 */
export type EndUser = (userId: string, end: 'tokens' | 'sessions', kept?: Claims) => Promise<void>

/** The type of `app.sessions`. */
export interface Sessions {
  /**
   * Opens a session of a user of this server: a token as from `open`, and a refresh token. Waits for running ends of sessions. Throws
   * `tokenInvalid` unless the user is active and has the role, and if the partial token has ended.
   */
  begin(user: SessionUser, amr: readonly string[], partial?: Claims): Promise<BegunSession>
  /**
   * The next token and refresh token of a session, with the user's current role. null for an invalid or expired refresh token,
   * or one of an ended session. A token that was used before ends its session on every server.
   */
  refresh(refreshToken: string, actor: Actor): Promise<BegunSession & { readonly user: SessionUser } | null>
  /**
   * Runs the work in one transaction that can end sessions of the tenant's users, on every server within a second. Changes of
   * one tenant wait for each other. The tenant is empty for the platform. Throws `tenantUnknown`.
   */
  changeUsers<Result>(tenant: string, work: (writer: SystemTransaction, end: EndUser) => Promise<Result>): Promise<Result>
  /**
   * A token that no earlier logout ends, not even one in the same second; `expiresIn` is in seconds. Throws without a signing key.
   *
   * @param partial the claims of the partial token that it replaces: a logout everywhere that ended the partial token ends this one, too
   */
  open(claims: SessionClaims, partial?: Claims): Promise<{ token: string, expiresIn: number }>
  /** A partial token that every later logout everywhere ends, but no earlier one; `expiresIn` is in seconds. */
  openPartial(claims: Pick<SessionClaims, 'sub' | 'tenant_id'>): Promise<{ partialToken: string, expiresIn: number }>
  /** Uses up a partial token; false if another request on any server did so before. Throws `tenantUnknown`. */
  usePartial(claims: Claims): Promise<boolean>
  /** Ends the token with these verified claims, and its session if it has one, on every server within a second. Throws `tenantUnknown`. */
  close(claims: Claims, token: string, actor: Actor): Promise<void>
  /**
   * Ends every token issued to the user so far, also those of identity providers, and none that is opened later. The tenant is
   * empty for a user of the platform. Throws `tenantUnknown`.
   *
   * @param caller the claims of the calling token: its end is kept while the token is alive
   */
  closeAll(tenant: string, userId: string, actor: Actor, caller?: Claims): Promise<void>
  /** Whether a partial token was used up, or ended by `closeAll`; reads the database. */
  isClosed(claims: Claims): Promise<boolean>
}

/** A logout, or another end of a user's tokens. */
interface Ended {
  readonly tenant: Owner
  readonly owner: ListOwner
  readonly userId: string
  /** The `subjectOf` the user. */
  readonly subject: Buffer
  readonly actor: Actor
  readonly at: Date
}

/** @param refreshLife milliseconds that a refresh token lives */
export function createSessions (
  app: FastifyInstance,
  store: RevocationStore,
  owners: Owners,
  refreshLife: number,
  now: () => number
): Sessions {
  const { auth, engine: { kyselyFor: dbFor }, events, log } = app
  const refreshTokens = createRefreshStore(dbFor)
  sweepHourly(app, 'expired refresh tokens', () => refreshTokens.sweep(app.db, new Date(now())))

  /**
   * The time after which none of the user's earlier tokens can be alive, and neither can a token opened now by any server of the platform.
   */
  function lifeOf (at: Date): Date {
    return new Date(at.getTime() + Math.max(leastLife, auth.lifetime * 1000) + tolerance)
  }

  /** As `lifeOf`, also for tokens that a server with a higher `jwt.expiresIn` opened for sessions of the user. */
  async function userLifeOf (writer: SystemTransaction, tenant: Owner, userId: string, at: Date): Promise<Date> {
    return later(lifeOf(at), isUuid(userId) ? await refreshTokens.lastTokenEnd(writer, tenant, userId) : null)
  }

  /** Ends tokens of a user. The work resolves with its part of the audit entry, or with null if it has ended nothing. */
  async function change (
    tenant: Owner,
    owner: ListOwner,
    userId: string,
    actor: Actor,
    work: (writer: SystemTransaction, subject: Buffer, at: Date) => Promise<Pick<AuditEntry, 'action' | 'outcome' | 'details'> | null>
  ): Promise<void> {
    await events.change({ topic: 'sessions', tenant }, async (writer) => {
      if (!await store.lock(writer, tenant, owner)) throw failure('tenantUnknown')
      const at = new Date(now())
      const subject = subjectOf(userId)
      const entry = await work(writer, subject, at)
      if (entry === null) return
      await writeAudit(writer, { tenant, actor, target: userId, at, ...entry })
      await bound(writer, { tenant, owner, userId, subject, actor, at })
    })
  }

  /** Keeps the bounds: too many rows are replaced by one, which ends more than requested, never less. */
  async function bound (writer: SystemTransaction, { tenant, owner, userId, subject, actor, at }: Ended): Promise<void> {
    const { tokens, rows } = await store.counts(writer, owner, subject, at)
    if (tokens > maxTokens) {
      await store.end(writer, owner, subject, at, await userLifeOf(writer, tenant, userId, at))
      await endSessions(writer, tenant, userId)
      await writeAudit(writer, {
        tenant,
        action: 'auth.logout_all',
        actor,
        target: userId,
        details: { reason: `more than ${maxTokens} tokens were revoked individually` },
        at
      })
      return
    }
    if (rows <= maxRows || rows - await store.removeExpired(writer, owner, at) <= maxRows) return
    await store.end(writer, owner, everyUser, at, lifeOf(at))
    await writeAudit(writer, {
      tenant,
      action: 'auth.logout_all',
      actor: noActor,
      details: { reason: `more than ${maxRows} logouts were active`, users: owner === tenant ? 'all' : `${owner.slice(1)}:*` },
      at
    })
    log.warn(
      { owner, ...tenant !== platformRef && { tenant } },
      `more than ${maxRows} logouts of one tenant, or of one provider's users without a tenant, were in force: all of their tokens are ended`
    )
  }

  function sequenceOf (claims: Pick<SessionClaims, 'sub' | 'tenant_id'>): Promise<number> {
    return store.sequence(dbFor(tenantOfToken(claims)), owners.of(claims), subjectOf(claims.sub))
  }

  function signed (
    { sub, role, tenant_id: tenantId, email, email_verified: verified, amr }: SessionClaims,
    sequence: unknown,
    session?: string
  ): { token: string, expiresIn: number } {
    const token = auth.sign({
      sub,
      role,
      ...tenantId !== undefined && { tenant_id: tenantId },
      ...email !== undefined && { email },
      ...verified !== undefined && { email_verified: verified },
      ...amr !== undefined && { amr },
      ...session !== undefined && { [sessionClaim]: session },
      [sequenceClaim]: sequence
    })
    return { token, expiresIn: Math.ceil(auth.lifetime) }
  }

  function signedFor (
    { id: sub, role, email, tenant }: SessionUser,
    emailVerified: boolean,
    amr: readonly string[],
    sequence: unknown,
    refreshToken: RefreshToken
  ): BegunSession {
    const claims = { sub, role, email, email_verified: emailVerified, amr, ...tenant !== platformRef && { tenant_id: tenant } }
    return { ...signed(claims, sequence, refreshToken.session), refreshToken: textOf(refreshToken) }
  }

  async function endSessions (writer: SystemTransaction, tenant: Owner, userId: string, kept: string | null = null): Promise<void> {
    if (isUuid(userId)) await refreshTokens.endAll(writer, tenant, userId, kept)
  }

  /** The session of a newest refresh token; null without one. A token that was used before ends the session. */
  async function judged (given: RefreshToken, actor: Actor): Promise<{ userId: string } | null> {
    const { tenant, session } = given
    const found = await refreshTokens.find(given, new Date(now()))
    if (found === undefined || !found.secret.equals(tokenHash(given.secret))) return null
    if (found.token.equals(tokenHash(given.own))) return found
    const { userId } = found
    await change(tenant, tenant, userId, actor, async (writer, subject, at) => {
      const ended = await refreshTokens.end(writer, tenant, userId, session)
      if (ended === undefined) return null
      const until = later(lastTokenEnd(at), ended.tokensEnd)
      await store.endToken(writer, tenant, { subject, token: sessionMark(userId, session), issued: null, until })
      return { action: 'auth.refresh', outcome: 'failure', details: { reason: 'used before: the session was revoked' } }
    })
    return null
  }

  /** The time after which no token that is opened now can be alive. */
  function lastTokenEnd (at: Date): Date {
    return new Date(at.getTime() + auth.lifetime * 1000 + tolerance)
  }

  /** The ends of a session that gets a token now. */
  function sessionEnds (): SessionEnds {
    return { until: new Date(now() + refreshLife), tokensEnd: lastTokenEnd(new Date(now())) }
  }

  return {
    async open (claims, partial) {
      return signed(claims, partial?.[sequenceClaim] ?? await sequenceOf(claims))
    },

    async begin (user, amr, partial) {
      const tenant = tenantRef(user.tenant)
      const refreshToken = createRefreshToken({ tenant, session: randomUUID() })
      return await dbFor(tenant).transaction().execute(async (writer) => {
        await store.waitForEnds(writer, tenant)
        const sequence = await store.sequence(writer, tenant, subjectOf(user.id))
        if (partial !== undefined && !isAfter(partial, sequence, now())) throw tokenInvalid()
        const begun = await refreshTokens.insert(writer, user, refreshToken, amr, sessionEnds())
        if (begun === null) throw tokenInvalid()
        return signedFor(user, begun.emailVerified, amr, sequence, refreshToken)
      })
    },

    async refresh (text, actor) {
      const given = readRefreshToken(text)
      const session = given === null ? null : await judged(given, actor)
      if (given === null || session === null) return null
      // Before the token is replaced: an end of all sessions in between must end the token that is opened here.
      const sequence = await sequenceOf({ sub: session.userId, tenant_id: given.tenant })
      const next = createRefreshToken(given)
      const rotated = await refreshTokens.rotate(given, next, sessionEnds())
      if (rotated !== null) {
        const { user, emailVerified, amr } = rotated
        return { ...signedFor(user, emailVerified, amr, sequence, next), user }
      }
      // Another request with the same token was faster, or the session has ended.
      await judged(given, actor)
      return null
    },

    changeUsers: (tenant: Owner, work) =>
      events.change({ topic: 'users', tenant }, async (writer) => {
        if (!await store.lock(writer, tenant, tenant)) throw failure('tenantUnknown')
        return await work(writer, async (userId, end, kept) => {
          const at = new Date(now())
          const until = await userLifeOf(writer, tenant, userId, at)
          const subject = subjectOf(userId)
          const session = kept === undefined ? null : sessionOf(kept)
          const sequence = (await store.end(writer, tenant, subject, at, until)).getTime()
          if (kept !== undefined && session !== null) {
            await store.endToken(writer, tenant, { subject, token: keptMark(kept, session, sequence), issued: null, until })
          }
          if (end === 'sessions') await endSessions(writer, tenant, userId, session)
          await bound(writer, { tenant, owner: tenant, userId, subject, actor: noActor, at })
        })
      }),

    async openPartial ({ sub, tenant_id: tenantId }) {
      const sequence = await sequenceOf({ sub, tenant_id: tenantId })
      const partialToken = auth.signPartial({ sub, ...tenantId !== undefined && { tenant_id: tenantId }, [sequenceClaim]: sequence })
      return { partialToken, expiresIn: partialLifetime }
    },

    async usePartial (claims) {
      const tenant = tenantOfToken(claims)
      return await store.usePartial(dbFor(tenant), tenant, owners.of(claims), {
        ...partialOf(claims),
        until: endOf(claims, new Date(now()))
      })
    },

    async close (claims, token, actor) {
      const tenant = tenantOfToken(claims)
      const owner = owners.of(claims)
      await change(tenant, owner, claims.sub, actor, async (writer, subject, at) => {
        const session = sessionOf(claims)
        const until = endOf(claims, at)
        const kept = session !== null && isUuid(claims.sub) ? await refreshTokens.end(writer, tenant, claims.sub, session) : undefined
        const ended = session === null
          ? { token: Buffer.from(auth.tokenId(token), 'base64url'), until }
          : { token: sessionMark(claims.sub, session), until: later(later(lastTokenEnd(at), until), kept?.tokensEnd ?? null) }
        // The second of two concurrent requests with one token has nothing to do.
        const isNew = await store.endToken(writer, owner, { subject, issued: futureIssue(claims, at), ...ended })
        return isNew ? { action: 'auth.logout' } : null
      })
    },

    async closeAll (tenant: Owner, userId, actor, caller) {
      const owner = owners.of({ sub: userId, tenant_id: tenant })
      await change(tenant, owner, userId, actor, async (writer, subject, at) => {
        const until = later(await userLifeOf(writer, tenant, userId, at), caller === undefined ? null : endOf(caller, at))
        await endSessions(writer, tenant, userId)
        await store.end(writer, owner, subject, later(at, caller === undefined ? null : futureIssue(caller, at)), until)
        return { action: 'auth.logout_all' }
      })
    },

    async isClosed (claims) {
      const sequence = await sequenceOf(claims)
      if (sequence !== 0 && !isAfter(claims, sequence, now())) return true
      return typeof claims.jti === 'string' && await store.isUsed(dbFor(tenantOfToken(claims)), owners.of(claims), partialOf(claims))
    }
  }
}

/** The row of a used partial token. Ids of other tokens are hashes of their texts. */
function partialOf ({ sub, jti }: Claims): { readonly subject: Buffer, readonly token: Buffer } {
  if (typeof jti !== 'string') throw new Error('the claims are not those of a partial token')
  return { subject: subjectOf(sub), token: hash('sha256', `partial ${jti}`, 'buffer') }
}
