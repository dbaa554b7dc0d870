/** `app.mfa`: the second factors of users. */
import type { FastifyInstance } from 'fastify'
import { type AttemptRule, createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { type Actor, type AuditAction, writeAudit } from '../../lib/database/audit.js'
import type { Engine } from '../../lib/database/engine.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { failure, isFailure, type TenantryError } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isUserId, maxUserIdLength } from '../../lib/identity/user-id.js'
import { optional } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { mfaPlace, type SecretCipher, SecretUnreadable } from '../../lib/secrets/cipher.js'
import { dayMs } from '../../lib/time/spans.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { type Code, createBackupCodes, createSecret, type Enrolment, enrolmentOf, hashOf, readCode, stepOf } from './codes.js'
import { createMfaStore, type MfaRow, type Sealed, type User } from './store.js'

export type { Enrolment } from './codes.js'
export type { User } from './store.js'

const unfinishedAfter = dayMs // ms after which an unfinished setup is removed
const window = 300_000 // ms
/** Tries of codes by one user: over all endpoints, logins and servers together. */
const codeRule: AttemptRule = { kind: 'mfa', max: 5, windowMs: window }
/** A QR code takes some milliseconds. */
const setupRule: AttemptRule = { kind: 'mfa-setup', max: 10, windowMs: window }

/** Codes are as typed: a one-time password or, where noted, a backup code. Every method with a code may throw `tooManyAttempts`. */
export interface Mfa {
  /** The user's logins need a second factor. */
  isEnabled(tenant: string, userId: string): Promise<boolean>
  /** Whether the one-time password or backup code is one of the user's enabled second factor; it is used up. */
  check(tenant: string, userId: string, code: string, actor: Actor): Promise<boolean>
  status(user: User): Promise<{ enabled: boolean, backupCodesRemaining: number }>
  /**
   * A new secret, valid from `enable` on; the previous one is valid until then. `forbidden` for the first one of a user who has not
   * confirmed the address, while mail is sent.
   *
   * @param account the name that the app shows
   * @param code a one-time password or backup code: `validationFailed` without one if the second factor is enabled, `codeInvalid`
   */
  setup(user: User, account: string, code: string | undefined, actor: Actor): Promise<Enrolment>
  /**
   * Whether the one-time password is right. Before the second factor is enabled, it is checked against the pending secret, and not used up.
   */
  verify(user: User, code: string, actor: Actor): Promise<boolean>
  /** Enables the pending secret, and returns backup codes. `codeInvalid` for a wrong one-time password; `conflict` without a setup. */
  enable(user: User, code: string, actor: Actor): Promise<string[]>
  /** Removes the second factor. Accepts backup codes too. `codeInvalid`; `conflict` if it is not enabled. */
  disable(user: User, code: string, actor: Actor): Promise<void>
  /**
   * New backup codes, which replace all former ones. Accepts backup codes too. `codeInvalid`, `validationFailed` without a code; `conflict`
   * if it is not enabled.
   */
  renewBackupCodes(user: User, code: string | undefined, actor: Actor): Promise<string[]>
  /** Whether the backup code is one of the user's, and how many are left; it is used up. */
  useBackupCode(user: User, code: string, actor: Actor): Promise<{ valid: boolean, backupCodesRemaining: number }>
}

/** Uses the code up; false for a wrong one. */
type Use = (writer: SystemTransaction, at: Date) => Promise<boolean>
type Work = (writer: SystemTransaction, at: Date) => Promise<void>

/** A try of a code: the user, the code, and the purpose. */
interface Try {
  readonly user: User
  readonly row: MfaRow
  readonly code: Code | null
  readonly action: AuditAction
  readonly actor: Actor
}

/** `isEnabled` alone, which needs no key. */
export function createEnabledCheck ({ kyselyFor: dbFor }: Pick<Engine, 'kyselyFor'>): Pick<Mfa, 'isEnabled'> {
  return {
    isEnabled: async (tenant: Owner, id) => isUserId(id) && await createMfaStore(dbFor(tenant)).isEnabled({ tenant, id })
  }
}

export function createMfa (app: FastifyInstance, cipher: SecretCipher, issuer: string, now: () => number): Mfa {
  const { engine: { kyselyFor: dbFor }, log } = app
  const [mail, users] = [optional(app, 'mail'), optional(app, 'users')]
  const attempts = createAttemptLimiter(dbFor, now)
  sweepHourly(app, 'old attempts and unfinished setups of second factors', async () => {
    await attempts.sweep(app.db)
    await createMfaStore(app.db).sweep(new Date(now() - unfinishedAfter))
  })

  async function read (user: User): Promise<MfaRow> {
    requireStorable(user)
    return await createMfaStore(dbFor(user.tenant)).read(user)
  }

  async function tryOf (user: User, typed: string, action: AuditAction, actor: Actor): Promise<Try> {
    return { user, row: await read(user), code: readCode(typed), action, actor }
  }

  /** The step of the code under a stored secret; 0 for a wrong code, and for an unreadable secret. */
  function stepUnder (user: User, sealed: Sealed | null, code: Code | null): number {
    if (sealed === null || code?.method !== 'totp') return 0
    try {
      return stepOf(cipher.decrypt(mfaPlace(user.tenant, user.id, sealed.version), Buffer.from(sealed.secret, 'base64')), code.text, now())
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err
      log.error(
        { err, tenant: user.tenant, userId: user.id },
        'the secret of a second factor cannot be read: no one-time password is accepted'
      )
      return 0
    }
  }

  /**
   * Tries a code: counts the try in advance; uses the code up, does its work, and writes the audit in one transaction. A wrong code takes
   * the same path. Resolves with whether the code was right.
   */
  async function attempt ({ user: { tenant, id }, row, code, action, actor }: Try, use: Use, work?: Work): Promise<boolean> {
    const details = { method: code?.method ?? null, enabled: row.enabled }
    await attempts.consume(codeRule, tenant, id).catch(async (error: unknown) => {
      const locked = { tenant, action, actor, outcome: 'failure', details: { ...details, reason: 'locked' }, at: new Date(now()) } as const
      if (isFailure(error, 'tooManyAttempts')) await writeAudit(dbFor(tenant), locked)
      throw error
    })
    return await dbFor(tenant).transaction().execute(async (writer) => {
      const at = new Date(now())
      const valid = await use(writer, at)
      if (valid) await work?.(writer, at)
      await writeAudit(writer, { tenant, action, actor, outcome: valid ? 'success' : 'failure', details, at })
      if (valid) await attempts.reset(codeRule, tenant, id, writer)
      return valid
    })
  }

  /** Tries a one-time password or a backup code of the enabled second factor. */
  function prove (tried: Try, work?: Work): Promise<boolean> {
    const { user, row, code } = tried
    return attempt(tried, async (writer, at) => {
      const store = createMfaStore(writer)
      if (code?.method === 'backup_code') return await store.useBackupCode(user, hashOf(user.tenant, user.id, code.text), at)
      return await store.useStep(user, row.current?.version ?? 0, stepUnder(user, row.current, code), at)
    }, work)
  }

  /** Otherwise the second factor of a stranger who registered the address would outlast the password reset of its owner. */
  async function requireConfirmed ({ tenant, id }: User): Promise<void> {
    if (mail()?.isConfigured !== true || (await users()?.find(tenant, id))?.emailVerified !== false) return
    throw failure('forbidden', {
      message: 'Confirm your e-mail address before you set up a second factor: POST /auth/email/resend sends you a link'
    })
  }

  /** Stores a secret that a code has yet to confirm. `enabled`: whether the caller found an enabled second factor, and proved it. */
  async function begin (
    writer: SystemTransaction,
    user: User,
    { enabled, secret, at }: { readonly enabled: boolean, readonly secret: string, readonly at: Date }
  ): Promise<void> {
    const store = createMfaStore(writer)
    const locked = await store.lock(user, at)
    if (locked === undefined) throw failure('tenantUnknown')
    if (locked.enabled !== enabled) {
      throw failure('conflict', { message: 'The second factor was enabled or disabled by another request: try again' })
    }
    const version = locked.nextVersion
    await store.setPending(
      user,
      { secret: cipher.encrypt(mfaPlace(user.tenant, user.id, version), secret).toString('base64'), version },
      at
    )
  }

  return {
    ...createEnabledCheck(app.engine),

    async check (tenant, id, typed, actor) {
      if (!isUserId(id)) return false
      const action = readCode(typed)?.method === 'backup_code' ? 'mfa.backup_code' : 'mfa.verify'
      return await prove(await tryOf({ tenant: tenantRef(tenant), id }, typed, action, actor))
    },

    async status (user) {
      const { enabled, backupCodes } = await read(user)
      return { enabled, backupCodesRemaining: backupCodes }
    },

    async setup (user, account, typed, actor) {
      const { tenant, id } = user
      const action = 'mfa.setup'
      const tried = await tryOf(user, typed ?? '', action, actor)
      // A code of the enabled second factor is enough to move it.
      if (!tried.row.enabled) await requireConfirmed(user)
      await attempts.consume(setupRule, tenant, id)
      const secret = createSecret()
      if (tried.row.enabled) {
        if (typed === undefined) throw codeRequired('/body/code')
        if (!await prove(tried, (writer, at) => begin(writer, user, { enabled: true, secret, at }))) throw failure('codeInvalid')
      } else {
        await dbFor(tenant).transaction().execute(async (writer) => {
          const at = new Date(now())
          await begin(writer, user, { enabled: false, secret, at })
          await writeAudit(writer, { tenant, action, actor, details: { enabled: false }, at })
        })
      }
      return await enrolmentOf(secret, issuer, account)
    },

    async verify (user, typed, actor) {
      const tried = await tryOf(user, typed, 'mfa.verify', actor)
      const { row, code } = tried
      return row.enabled ? await prove(tried) : await attempt(tried, async () => stepUnder(user, row.pending, code) > 0)
    },

    async enable (user, typed, actor) {
      const tried = await tryOf(user, typed, 'mfa.enable', actor)
      const { row: { enabled, pending }, code } = tried
      if (pending === null) {
        throw failure('conflict', {
          message: enabled
            ? 'The second factor is already enabled, and no other second factor is set up'
            : 'No second factor is set up: call POST /mfa/setup first'
        })
      }
      const backupCodes = createBackupCodes()
      const isRight = await attempt(tried, (writer, at) =>
        createMfaStore(writer).enable(user, pending.version, stepUnder(user, pending, code), hashesOf(user, backupCodes), at))
      if (!isRight) throw failure('codeInvalid')
      return backupCodes
    },

    async disable (user, typed, actor) {
      const tried = await tryOf(user, typed, 'mfa.disable', actor)
      if (!tried.row.enabled) throw notEnabled()
      if (!await prove(tried, (writer) => createMfaStore(writer).delete(user))) throw failure('codeInvalid')
    },

    async renewBackupCodes (user, typed, actor) {
      const tried = await tryOf(user, typed ?? '', 'mfa.backup_codes', actor)
      if (!tried.row.enabled) throw notEnabled()
      if (typed === undefined) throw codeRequired('/query/code')
      const backupCodes = createBackupCodes()
      const hashes = hashesOf(user, backupCodes)
      if (!await prove(tried, (writer, at) => createMfaStore(writer).setBackupCodes(user, hashes, at))) throw failure('codeInvalid')
      return backupCodes
    },

    async useBackupCode (user, typed, actor) {
      const tried = await tryOf(user, typed, 'mfa.backup_code', actor)
      const valid = tried.code?.method === 'backup_code' && await prove(tried)
      return { valid, backupCodesRemaining: (await read(user)).backupCodes }
    }
  }
}

function hashesOf ({ tenant, id }: User, backupCodes: readonly string[]): string[] {
  return backupCodes.map((code) => hashOf(tenant, id, code))
}

function requireStorable ({ id }: User): void {
  if (!isUserId(id)) {
    throw failure('badRequest', {
      message:
        `The \`sub\` of the token has more than ${maxUserIdLength} characters, or characters that cannot be stored: this user cannot have a second factor`
    })
  }
}

function codeRequired (path: string): TenantryError {
  return invalidInput(path, 'is required if the second factor is enabled', 'required')
}

function notEnabled (): TenantryError {
  return failure('conflict', { message: 'The second factor is not enabled' })
}
