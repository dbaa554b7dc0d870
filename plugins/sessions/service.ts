/** What `app.sessions` offers (DESIGN 5): tokens that begin a session, and the end of sessions before their time. */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely, Transaction } from 'kysely'
import type { Actor } from '../../lib/audit.js'
import type { Claims } from '../../lib/compiler/types.js'
import type { Events } from '../../lib/database/events.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Auth } from '../auth/index.js'
import type { Owners } from './owner.js'
import type { RevocationStore } from './store.js'
import { hash } from 'node:crypto'
import { noActor, writeAudit } from '../../lib/audit.js'
import { failure } from '../../lib/errors.js'
import { partialLifetime } from '../auth/partial.js'
import { isAfter, sequenceClaim, subjectOf } from './sequence.js'

export const maxTokens = 50 // of one user that end one by one; with one more all that the user has end
export const maxRows = 20_000 // of one owner; with one more all that the owner's users have end
const leastLife = 604_800_000 // ms that a logout of everywhere is remembered: tokens that were made elsewhere may live longer than ours
const tolerance = 10_000 // ms that a token may be alive after its time: what verification forgives, and clocks that differ
const latest = Date.UTC(9999, 11, 31)
const everybody = Buffer.alloc(0)

/** Whom a session is for. */
export interface SessionClaims {
  readonly sub: string
  readonly role: string
  readonly tenant_id?: string | undefined
  readonly email?: string | undefined
  /** How the user has proven itself (RFC 8176). */
  readonly amr?: readonly string[] | undefined
}

/** What `app.sessions` is. */
export interface Sessions {
  /**
   * A token that no earlier logout ends, not even one of the same second; `expiresIn` is in seconds. Throws where there is no key to sign with.
   *
   * @param partial the claims of the partial token that it is given for: a logout of everywhere that has ended that ends this one, too
   */
  open (claims: SessionClaims, partial?: Claims): Promise<{ token: string, expiresIn: number }>
  /** A partial token that every later logout of everywhere ends, and no earlier one; `expiresIn` is in seconds. */
  openPartial (claims: Pick<SessionClaims, 'sub' | 'tenant_id'>): Promise<{ partialToken: string, expiresIn: number }>
  /** Uses up a partial token; false where another request did so before, on any server. `tenantUnknown`. */
  usePartial (claims: Claims): Promise<boolean>
  /** Ends the token whose verified claims these are, on every server within a second. `tenantUnknown`. */
  close (claims: Claims, token: string, actor: Actor): Promise<void>
  /**
   * Ends every token that was issued to the user before, those of identity providers too, and none that is opened later.
   * The tenant is empty for a user of the platform. `tenantUnknown`.
   *
   * @param caller the claims of the token that asks for it: it is not forgotten while that is alive
   */
  closeAll (tenant: string, userId: string, actor: Actor, caller?: Claims): Promise<void>
  /**
   * Whether a partial token was used up, or ended by `closeAll`, as the database knows it now.
   */
  isClosed (claims: Claims): Promise<boolean>
}

export interface SessionsParts {
  readonly store: RevocationStore
  readonly owners: Owners
  readonly events: Events
  readonly auth: Pick<Auth, 'sign' | 'signPartial' | 'tokenId' | 'lifetime'>
  /** For what a tenant's endpoints read. */
  readonly dbFor: (tenant: string) => Kysely<SystemTables>
  readonly log: FastifyBaseLogger
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number
}

export function createSessions ({ store, owners, events, auth, dbFor, log, now }: SessionsParts): Sessions {
  /** What the user has now and what it is given in this moment, which no clock of the servers of one platform is behind. */
  function lifeOf (at: Date): Date {
    return new Date(at.getTime() + Math.max(leastLife, auth.lifetime * 1000) + tolerance)
  }

  async function change (tenant: string, owner: string, work: (writer: Transaction<SystemTables>, at: Date) => Promise<void>): Promise<void> {
    await events.change({ topic: 'sessions', tenant }, async (writer) => {
      if (!await store.lock(writer, tenant, owner)) throw failure('tenantUnknown')
      await work(writer, new Date(now()))
    })
  }

  /** Holds the bounds: more rows become one, which ends more than was asked for rather than less. */
  async function bound (writer: Transaction<SystemTables>, tenant: string, owner: string, subject: Buffer, at: Date, actor: Actor, userId: string): Promise<void> {
    const { tokens, rows } = await store.counts(writer, owner, subject, at)
    if (tokens > maxTokens) {
      await store.end(writer, owner, { subject, at, until: lifeOf(at) })
      await writeAudit(writer, { tenant, action: 'auth.logout_all', actor, target: userId, details: { reason: `more than ${maxTokens} tokens were ended one by one` }, at })
      return
    }
    if (rows <= maxRows || rows - await store.removeOver(writer, owner, at) <= maxRows) return
    await store.end(writer, owner, { subject: everybody, at, until: lifeOf(at) })
    await writeAudit(writer, { tenant, action: 'auth.logout_all', actor: noActor, details: { reason: `more than ${maxRows} logouts were in force`, users: owner === tenant ? 'all' : `${owner.slice(1)}:*` }, at })
    log.warn({ owner, ...tenant !== '' && { tenant } }, `more than ${maxRows} logouts of one tenant, or of one provider's users without a tenant, were in force: all of their tokens are ended`)
  }

  function sequenceOf ({ sub, tenant_id: tenant = '' }: Pick<SessionClaims, 'sub' | 'tenant_id'>): Promise<number> {
    return store.sequence(dbFor(tenant), owners.of({ sub, tenant_id: tenant }), subjectOf(sub, 'buffer'))
  }

  return {
    async open ({ sub, role, tenant_id: tenantId, email, amr }, partial) {
      const sequence = partial?.[sequenceClaim] ?? await sequenceOf({ sub, tenant_id: tenantId })
      const token = auth.sign({
        sub,
        role,
        ...tenantId !== undefined && { tenant_id: tenantId },
        ...email !== undefined && { email },
        ...amr !== undefined && { amr },
        [sequenceClaim]: sequence
      })
      return { token, expiresIn: Math.ceil(auth.lifetime) }
    },

    async openPartial ({ sub, tenant_id: tenantId }) {
      const sequence = await sequenceOf({ sub, tenant_id: tenantId })
      const partialToken = auth.signPartial({ sub, ...tenantId !== undefined && { tenant_id: tenantId }, [sequenceClaim]: sequence })
      return { partialToken, expiresIn: partialLifetime }
    },

    async usePartial (claims) {
      const { tenant_id: tenant = '' } = claims
      return await store.usePartial(dbFor(tenant), tenant, owners.of(claims), { ...partialOf(claims), until: endOf(claims, new Date(now())) })
    },

    async close (claims, token, actor) {
      const tenant = claims.tenant_id ?? ''
      const owner = owners.of(claims)
      const subject = subjectOf(claims.sub, 'buffer')
      await change(tenant, owner, async (writer, at) => {
        const ended = { subject, token: Buffer.from(auth.tokenId(token), 'base64url'), issued: futureIssue(claims, at), until: endOf(claims, at) }
        // Of two requests with one token at a time the second has nothing to do.
        if (!await store.endToken(writer, owner, ended)) return
        await writeAudit(writer, { tenant, action: 'auth.logout', actor, target: claims.sub, at })
        await bound(writer, tenant, owner, subject, at, actor, claims.sub)
      })
    },

    async closeAll (tenant, userId, actor, caller) {
      const owner = owners.of({ sub: userId, tenant_id: tenant })
      const subject = subjectOf(userId, 'buffer')
      await change(tenant, owner, async (writer, at) => {
        const until = caller === undefined ? lifeOf(at) : later(lifeOf(at), endOf(caller, at))
        await store.end(writer, owner, { subject, at: later(at, caller === undefined ? null : futureIssue(caller, at)), until })
        await writeAudit(writer, { tenant, action: 'auth.logout_all', actor, target: userId, at })
        await bound(writer, tenant, owner, subject, at, actor, userId)
      })
    },

    async isClosed (claims) {
      const sequence = await sequenceOf(claims)
      if (sequence !== 0 && !isAfter(claims, sequence, now())) return true
      return typeof claims.jti === 'string' && await store.isUsed(dbFor(claims.tenant_id ?? ''), owners.of(claims), partialOf(claims))
    }
  }
}

/** The row of a used partial token. Ids of other tokens are hashes of their texts. */
function partialOf ({ sub, jti }: Claims): { readonly subject: Buffer, readonly token: Buffer } {
  if (typeof jti !== 'string') throw new Error('the claims are not those of a partial token')
  return { subject: subjectOf(sub, 'buffer'), token: hash('sha256', `partial ${jti}`, 'buffer') }
}

/** When the token can be alive no longer. It may say any number. */
function endOf ({ exp }: Claims, at: Date): Date {
  const end = (typeof exp === 'number' ? exp : Infinity) * 1000 + tolerance
  return new Date(Math.max(at.getTime(), Math.min(end, latest)))
}

/** When the token was issued, by a clock that is ahead; else null. Verification admits some seconds. */
function futureIssue ({ iat }: Claims, at: Date): Date | null {
  return typeof iat === 'number' && iat * 1000 > at.getTime() && iat * 1000 < latest ? new Date(Math.ceil(iat * 1000)) : null
}

function later (one: Date, other: Date | null): Date {
  return other !== null && other > one ? other : one
}
