/** `app.mfa`: the second factors of users. */
import type { FastifyBaseLogger } from 'fastify'
import type { Kysely, Transaction } from 'kysely'
import { type AttemptRule, createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { type Actor, type AuditAction, writeAudit } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure, type TenantryError } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { isUserId, maxUserIdLength } from '../../lib/identity/user-id.js'
import { mfaPlace, type SecretCipher, SecretUnreadable } from '../../lib/secrets/cipher.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { type Code, createBackupCodes, createSecret, type Enrolment, enrolmentOf, hashOf, readCode, stepOf } from './codes.js'
import { createMfaStore, type MfaRow, type Sealed, type User } from './store.js'

export type { Enrolment } from './codes.js'
export type { User } from './store.js'

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
   * A new secret, valid from `enable` on; the previous one is valid until then.
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

export interface MfaParts {
  /** For calls of a tenant's users; empty for those without a tenant. */
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly cipher: SecretCipher
  /** The name that apps show. */
  readonly issuer: string
  readonly log: FastifyBaseLogger
  readonly now: () => number
}

type Writer = Transaction<SystemTables>

/** A try of a code: the user, the code, and the purpose. */
interface Try {
  readonly user: User
  readonly row: MfaRow
  readonly code: Code | null
  readonly action: AuditAction
  readonly actor: Actor
}

export function createMfa ({ dbFor, cipher, issuer, log, now }: MfaParts): Mfa {
  const read = (user: User) => createMfaStore(dbFor(user.tenant)).read(user)

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
   * the same path. null for an invalid code.
   */
  async function attempt<Result> (
    { user, row, code, action, actor }: Try,
    use: (writer: Writer, at: Date) => Promise<boolean>,
    work: (writer: Writer, at: Date) => Promise<Result>
  ): Promise<Result | null> {
    const { tenant, id } = user
    await createAttemptLimiter(dbFor(tenant), now).consume(codeRule, tenant, id)
    return await dbFor(tenant).transaction().execute(async (writer) => {
      const at = new Date(now())
      const valid = await use(writer, at)
      const result = valid ? await work(writer, at) : null
      await writeAudit(writer, {
        tenant,
        action,
        actor,
        outcome: valid ? 'success' : 'failure',
        details: { method: code?.method ?? null, enabled: row.enabled },
        at
      })
      if (valid) await createAttemptLimiter(writer, now).reset(codeRule, tenant, id)
      return result
    })
  }

  /** Tries a one-time password or a backup code of the enabled second factor. */
  function prove<Result> (tried: Try, work: (writer: Writer, at: Date) => Promise<Result>): Promise<Result | null> {
    const { user, row, code } = tried
    return attempt(tried, async (writer, at) => {
      const store = createMfaStore(writer)
      if (code?.method === 'backup_code') return await store.useBackupCode(user, hashOf(user.tenant, user.id, code.text), at)
      return await store.useStep(user, row.current?.version ?? 0, stepUnder(user, row.current, code), at)
    }, work)
  }

  async function begin (writer: Writer, user: User, enabled: boolean, secret: string, at: Date): Promise<true> {
    const store = createMfaStore(writer)
    const locked = await store.lock(user, at)
    if (locked === undefined) throw failure('tenantUnknown')
    // Without a code only as long as it is not needed.
    if (locked.enabled !== enabled) {
      throw failure('conflict', {
        message: 'The second factor was enabled or disabled by another request: try again'
      })
    }
    const version = locked.nextVersion
    await store.setPending(
      user,
      { secret: cipher.encrypt(mfaPlace(user.tenant, user.id, version), secret).toString('base64'), version },
      at
    )
    return true
  }

  return {
    async isEnabled (tenant: Owner, id) {
      return isUserId(id) && await createMfaStore(dbFor(tenant)).isEnabled({ tenant, id })
    },

    async check (tenant, id, typed, actor) {
      if (!isUserId(id)) return false
      const user = { tenant: tenantRef(tenant), id }
      const [row, code] = [await read(user), readCode(typed)]
      return await prove({ user, row, code, actor, action: code?.method === 'backup_code' ? 'mfa.backup_code' : 'mfa.verify' }, done) !==
        null
    },

    async status (user) {
      requireStorable(user)
      const { enabled, backupCodes } = await read(user)
      return { enabled, backupCodesRemaining: backupCodes }
    },

    async setup (user, account, typed, actor) {
      requireStorable(user)
      const { tenant, id } = user
      await createAttemptLimiter(dbFor(tenant), now).consume(setupRule, tenant, id)
      const row = await read(user)
      const secret = createSecret()
      const action = 'mfa.setup'
      if (row.enabled) {
        if (typed === undefined) throw codeRequired('/body/code')
        if (
          await prove({ user, row, code: readCode(typed), actor, action }, (writer, at) => begin(writer, user, true, secret, at)) === null
        ) throw failure('codeInvalid')
      } else {
        await dbFor(tenant).transaction().execute(async (writer) => {
          const at = new Date(now())
          await begin(writer, user, false, secret, at)
          await writeAudit(writer, { tenant, action, actor, details: { enabled: false }, at })
        })
      }
      return await enrolmentOf(secret, issuer, account)
    },

    async verify (user, typed, actor) {
      requireStorable(user)
      const [row, code] = [await read(user), readCode(typed)]
      const tried = { user, row, code, actor, action: 'mfa.verify' } as const
      if (row.enabled) return await prove(tried, done) !== null
      return await attempt(tried, async () => stepUnder(user, row.pending, code) > 0, done) !== null
    },

    async enable (user, typed, actor) {
      requireStorable(user)
      const [row, code] = [await read(user), readCode(typed)]
      const { pending } = row
      if (pending === null) {
        throw failure('conflict', {
          message: row.enabled
            ? 'The second factor is already enabled, and no other second factor is set up'
            : 'No second factor is set up: call POST /mfa/setup first'
        })
      }
      const backupCodes = createBackupCodes()
      const enabled = await attempt(
        { user, row, code, actor, action: 'mfa.enable' },
        (writer, at) =>
          createMfaStore(writer).enable(user, pending.version, stepUnder(user, pending, code), hashesOf(user, backupCodes), at),
        done
      )
      if (enabled === null) throw failure('codeInvalid')
      return backupCodes
    },

    async disable (user, typed, actor) {
      requireStorable(user)
      const row = await read(user)
      if (!row.enabled) throw notEnabled()
      const disabled = await prove({ user, row, code: readCode(typed), actor, action: 'mfa.disable' }, async (writer) => {
        await createMfaStore(writer).delete(user)
        return true
      })
      if (disabled === null) throw failure('codeInvalid')
    },

    async renewBackupCodes (user, typed, actor) {
      requireStorable(user)
      const row = await read(user)
      if (!row.enabled) throw notEnabled()
      if (typed === undefined) throw codeRequired('/query/code')
      const backupCodes = createBackupCodes()
      const renewed = await prove({ user, row, code: readCode(typed), actor, action: 'mfa.backup_codes' }, async (writer, at) => {
        await createMfaStore(writer).setBackupCodes(user, hashesOf(user, backupCodes), at)
        return true
      })
      if (renewed === null) throw failure('codeInvalid')
      return backupCodes
    },

    async useBackupCode (user, typed, actor) {
      requireStorable(user)
      const [row, code] = [await read(user), readCode(typed)]
      const valid = code?.method === 'backup_code' && await prove({ user, row, code, actor, action: 'mfa.backup_code' }, done) !== null
      return { valid, backupCodesRemaining: (await read(user)).backupCodes }
    }
  }
}

/** There is no further work. */
async function done (): Promise<true> {
  return true
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
