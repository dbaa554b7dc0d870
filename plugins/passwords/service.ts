/** Resets and changes of passwords, and the confirmation of addresses. */
import type { FastifyInstance } from 'fastify'
import type { AttemptLimiter, AttemptRule } from '../../lib/database/attempt-limiter.js'
import { type Actor, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import type { MailKind } from '../../lib/document/mail-template.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { type Owner, tenantOfToken } from '../../lib/identity/tenant-ref.js'
import { hourMs } from '../../lib/time/spans.js'
import { credentialsInvalid } from '../auth/errors.js'
import { createPasswordTries } from '../login/tries.js'
import type { Link, LinkToken } from '../mail/links.js'
import { requirePresent } from '../sessions/present.js'
import { type NamedTenant, unknownTenant } from '../tenancy/named.js'
import type { User } from '../users/user.js'

/** At most three mails to one address an hour. */
const resetMails: AttemptRule = { kind: 'mail.reset', max: 3, windowMs: hourMs }
const verifyMails: AttemptRule = { ...resetMails, kind: 'mail.verify' }

const wrongPassword = 'The current password is wrong'

export type PasswordService = ReturnType<typeof createPasswordService>

export function createPasswordService (app: FastifyInstance, attempts: AttemptLimiter, now: () => number) {
  const { auth, engine: { kyselyFor: dbFor }, mail, sessions, users } = app
  const { links } = mail
  const tryPassword = createPasswordTries(attempts)
  const at = () => new Date(now())

  /** Counts a mail to the address; false if the rule allows no more. */
  async function mayPost (rule: AttemptRule, tenant: Owner, subject: string): Promise<boolean> {
    try {
      if (await attempts.isSpent(rule, tenant, subject)) return false
      await attempts.consume(rule, tenant, subject)
      return true
    } catch (error) {
      if (isFailure(error, 'tooManyAttempts')) return false
      throw error
    }
  }

  /** Throws `forbidden` with the message for a user of an identity provider. */
  async function localUser (claims: Claims, message: string): Promise<User> {
    const user = await users.find(tenantOfToken(claims), claims.sub)
    if (user === null) throw failure('forbidden', { message })
    return user
  }

  /** The audit entry of a changed password. */
  const changeOf = ({ tenant, email }: User, actor: Actor): AuditEntry => ({
    tenant,
    action: 'auth.password.change',
    actor,
    target: email,
    at: at()
  })

  /** Checks the current password, and audits a refusal. Throws `credentialsInvalid` and `tooManyAttempts`. */
  async function authenticate (known: User, currentPassword: string, actor: Actor & { readonly address: string }): Promise<User> {
    const { tenant, id, email } = known
    const auditRefusal = (reason: string) =>
      writeAudit(dbFor(tenant), { ...changeOf(known, actor), outcome: 'failure', details: { reason } })
    const check = () => users.authenticate(tenant, email, currentPassword)
    const user = await tryPassword({ tenant, account: email, address: actor.address }, check).catch(async (error: unknown) => {
      if (isFailure(error, 'tooManyAttempts')) await auditRefusal('locked')
      throw error
    })
    if (user === null || user.id !== id) {
      await auditRefusal('credentials')
      throw credentialsInvalid(wrongPassword)
    }
    return user
  }

  /** Verifies the address of the link, and uses up the link. Throws `linkInvalid`. */
  async function verifyAddress (writer: SystemTransaction, kind: MailKind, token: LinkToken, link: Link): Promise<void> {
    // The user first, as in changes of users, which then remove the user's links: the other order would deadlock with them.
    const isVerified = await users.setVerified(writer, { tenant: link.tenant, id: link.userId }, link.email)
    if (!isVerified || await links.use(writer, kind, token) === null) throw failure('linkInvalid')
  }

  return {
    /** Sends a link to the address, if a user has it and fewer than three were sent within the hour. Throws `mailNotConfigured`. */
    async forgot ({ id, exists }: NamedTenant, given: string, actor: Actor): Promise<void> {
      mail.requireConfigured()
      const email = given.toLowerCase()
      const tenant = exists ? id : unknownTenant
      // Counted before the address is looked up, in the database: for all servers, and for unknown addresses.
      if (!await mayPost(resetMails, tenant, exists ? email : `${id} ${email}`)) return
      await mail.post({ kind: 'reset', tenant, email, exists, actor })
    },

    /**
     * Sends the user another link that confirms its address, unless it is confirmed or three were sent within the hour. Throws
     * `mailNotConfigured`, and `forbidden` for a user of an identity provider.
     */
    async resend (claims: Claims, actor: Actor): Promise<void> {
      mail.requireConfigured()
      const user = await localUser(claims, 'This user has no e-mail address on this server: verify it where the user logs in')
      const { tenant, email, emailVerified } = user
      if (emailVerified || !await mayPost(verifyMails, tenant, email)) return
      await dbFor(tenant).transaction().execute(async (writer) => {
        await mail.post({ kind: 'verify', tenant, email, actor }, writer)
        await writeAudit(writer, { tenant, action: 'auth.email.resend', actor, target: email, at: at() })
      })
    },

    /** Throws `validationFailed`, and `linkInvalid` for an invalid link, for any reason. */
    async reset (token: LinkToken, password: string, actor: Actor): Promise<void> {
      const { tenant } = token
      const link = await links.find('reset', token)
      if (link === null) throw failure('linkInvalid')
      const { userId, email } = link
      const hash = await users.hashPassword(tenant, password)
      await sessions.changeUsers(tenant, async (writer, end) => {
        // The link was sent to this address, so its use also verifies the address.
        await verifyAddress(writer, 'reset', token, link)
        if (!await users.setPassword(writer, { tenant, id: userId }, hash)) throw failure('linkInvalid')
        await end(userId, 'sessions')
        await writeAudit(writer, { tenant, action: 'auth.password.reset', actor: { ...actor, userId }, target: email, at: at() })
      }).catch(withoutTenant)
    },

    /**
     * Changes the password of a user who knows the current one: all other sessions end. Throws `credentialsInvalid`, `tooManyAttempts`,
     * `validationFailed`, and `forbidden` for a user of an identity provider.
     */
    async change (
      claims: Claims,
      { currentPassword, password }: { readonly currentPassword: string, readonly password: string },
      actor: Actor & { readonly address: string }
    ): Promise<void> {
      const known = await localUser(claims, 'This user has no password on this server: change it where the user logs in')
      const { tenant, id } = known
      const user = await authenticate(known, currentPassword, actor)
      const hash = await users.hashPassword(tenant, password)
      await sessions.changeUsers(tenant, async (writer, end) => {
        // Another request may have changed it meanwhile, for example with the link of a mail.
        if (!await users.setPassword(writer, user, hash, user)) throw credentialsInvalid(wrongPassword)
        // A session that has ended must not be kept.
        await requirePresent(writer, claims, at(), auth.providers)
        await end(id, 'sessions', claims)
        await links.removeTo(writer, tenant, id)
        await writeAudit(writer, changeOf(known, actor))
      })
    },

    /** Throws `linkInvalid`. */
    async verify (token: LinkToken, actor: Actor): Promise<void> {
      const { tenant } = token
      const link = await links.find('verify', token)
      if (link === null) throw failure('linkInvalid')
      await dbFor(tenant).transaction().execute(async (writer) => {
        await verifyAddress(writer, 'verify', token, link)
        await writeAudit(writer, {
          tenant,
          action: 'auth.email.verify',
          actor: { ...actor, userId: link.userId },
          target: link.email,
          at: at()
        })
      })
    }
  }
}

/** A link of a deleted tenant is like any invalid one. */
function withoutTenant (error: unknown): never {
  throw isFailure(error, 'tenantUnknown') ? failure('linkInvalid') : error
}
