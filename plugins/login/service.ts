/** Logins and registrations: from credentials to a token. */
import type { FastifyInstance } from 'fastify'
import type { AttemptLimiter, AttemptRule } from '../../lib/database/attempt-limiter.js'
import { type Actor, type AuditAction, writeAudit } from '../../lib/database/audit.js'
import { failure, isFailure } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { type Owner, platformRef, tenantOfToken } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import { hourMs } from '../../lib/time/spans.js'
import { credentialsInvalid, tokenInvalid } from '../auth/errors.js'
import type { Mfa } from '../mfa/index.js'
import type { Sessions } from '../sessions/index.js'
import type { LoggedIn } from '../sessions/login-response.js'
import { type NamedTenant, unknownTenant } from '../tenancy/named.js'
import type { NewUser, User } from '../users/index.js'
import { createPasswordTries } from './tries.js'

/** Mails to one address, whose user may be deleted and registered again. */
const registrationMails: AttemptRule = { kind: 'mail.register', max: 3, windowMs: hourMs }

type Credentials = Pick<NewUser, 'email' | 'password'>

/** The password was right, and the second factor is missing. */
type MfaRequired = Awaited<ReturnType<Sessions['openPartial']>>

export type Login = ReturnType<typeof createLogin>

/** @param mfa null: second factors are off */
export function createLogin (app: FastifyInstance, mfa: Mfa | null, attempts: AttemptLimiter, now: () => number) {
  const { engine, log, sessions, users } = app
  const mail = optional(app, 'mail')()
  const unchecked = optional(app, 'uncheckedMfa')()
  const tryPassword = createPasswordTries(attempts)

  async function audit (
    tenant: Owner,
    action: AuditAction,
    actor: Actor,
    target: string,
    outcome: 'success' | 'failure',
    details?: Readonly<Record<string, unknown>>
  ): Promise<void> {
    await writeAudit(engine.kyselyFor(tenant), { tenant, action, actor, target, outcome, details, at: new Date(now()) })
  }

  async function opened (user: User, amr: readonly string[], partial?: Claims): Promise<LoggedIn> {
    return { ...await sessions.begin(user, amr, partial), user }
  }

  /** The result of a right password. */
  async function entered (user: User): Promise<LoggedIn | MfaRequired> {
    const { id: sub, tenant } = user
    if (!await (mfa ?? unchecked)?.isEnabled(tenant, sub)) return await opened(user, ['pwd'])
    if (mfa === null) throw failure('mfaNotConfigured')
    return await sessions.openPartial({ sub, ...tenant !== platformRef && { tenant_id: tenant } })
  }

  return {
    /** Throws `credentialsInvalid`, also for an unknown tenant, `tooManyAttempts`, `loginBusy`, `mfaNotConfigured`. */
    async logIn ({ id, exists }: NamedTenant, { email: given, password }: Credentials, address: string): Promise<LoggedIn | MfaRequired> {
      const tenant = exists ? id : unknownTenant
      const email = given.toLowerCase()
      const anonymous: Actor = { userId: null, address }
      const attempt = { tenant, account: exists ? email : `${id} ${email}`, address }
      const user = await tryPassword(attempt, () => users.authenticate(tenant, email, password)).catch(async (error: unknown) => {
        if (isFailure(error, 'tooManyAttempts')) await audit(tenant, 'auth.login', anonymous, email, 'failure', { reason: 'locked' })
        throw error
      })
      const session = user === null
        ? null
        : await entered(user).catch(async (error: unknown) => {
          if (isFailure(error, 'mfaNotConfigured')) await audit(tenant, 'auth.login', anonymous, email, 'failure', { reason: 'mfa' })
          return unlessEnded(error)
        })
      // The check of a password waits for its turn. A user who was disabled meanwhile must not get a token.
      if (user === null || session === null || !await users.isUnchanged(user, password)) {
        await audit(tenant, 'auth.login', anonymous, email, 'failure', { reason: 'credentials' })
        throw credentialsInvalid(undefined, id === platformRef ? withoutTenant : {})
      }
      const details = 'partialToken' in session ? { mfaRequired: true } : undefined
      await audit(tenant, 'auth.login', { userId: user.id, address }, email, 'success', details)
      return session
    },

    /**
     * Checks the second factor of a partial token's user. Throws `credentialsInvalid`, `tooManyAttempts`, and `tokenInvalid` if the user
     * does not exist or all its sessions were ended since.
     */
    async verifyCode (claims: Claims, code: string, actor: Actor): Promise<LoggedIn> {
      const { sub } = claims
      const tenant = tenantOfToken(claims)
      const user = await users.find(tenant, sub)
      if (mfa === null || user === null || user.status !== 'active' || await sessions.isClosed(claims)) throw tokenInvalid()
      const audited = (outcome: 'success' | 'failure', reason?: string) =>
        audit(tenant, 'auth.mfa', actor, user.email, outcome, reason === undefined ? undefined : { reason })
      const isRight = await mfa.check(tenant, sub, code, actor).catch(async (error: unknown) => {
        if (isFailure(error, 'tooManyAttempts')) await audited('failure', 'locked')
        throw error
      })
      if (!isRight) {
        await audited('failure', 'code')
        throw credentialsInvalid('Invalid code')
      }
      // After the code was found right: a wrong code keeps the token for another try.
      if (!await sessions.usePartial(claims)) {
        await audited('failure', 'used')
        throw tokenInvalid()
      }
      const session = await opened(user, ['pwd', 'otp'], claims)
      await audited('success')
      return session
    },

    /** The next token of a session. Throws `tokenInvalid`. */
    async refresh (refreshToken: string, actor: Actor): Promise<LoggedIn> {
      const refreshed = await sessions.refresh(refreshToken, actor).catch((error: unknown) => {
        if (isFailure(error, 'tenantUnknown')) return null
        throw error
      })
      if (refreshed === null) throw tokenInvalid()
      return refreshed
    },

    /** A new user with the role `user`. Throws `validationFailed`, `conflict`, `tenantUnknown`, `loginBusy`. */
    async register (tenant: Owner, credentials: Credentials, address: string): Promise<LoggedIn> {
      const actor = { userId: null, address }
      const user = await users.create({ ...credentials, tenant }, actor, 'auth.register')
      if (mail?.isConfigured === true) {
        try {
          await attempts.consume(registrationMails, tenant, user.email)
          await mail.post({ kind: 'verify', tenant, email: user.email, actor })
        } catch (err) {
          log.warn({ err, tenant, userId: user.id }, 'the mail that confirms an address was not sent')
        }
      }
      return await opened(user, ['pwd'])
    }
  }
}

/** For every refused login of the platform: it depends on the request alone, and reveals no user. */
const withoutTenant = {
  details: [{ path: '', message: 'without the header X-Tenant-ID, only users of the platform can log in', keyword: 'tenant' }]
}

/** The user was disabled or deleted, or got another role, since its password was checked. */
function unlessEnded (error: unknown): null {
  if (isFailure(error, 'tokenInvalid')) return null
  throw error
}
