/** `app.users`: users with passwords, of tenants and of the platform. */
import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { uuidForm } from '../../lib/identity/uuid.js'
import { isOutdated, passwordFault, type Passwords } from '../../lib/secrets/passwords.js'
import { invalidInput } from '../../lib/validation/detail.js'
import type { ErrorDetail } from '../../lib/validation/validator.js'
import type { UserId, UserStore } from './store.js'
import { defaultRole, emailTaken, identityFaults, type NewUser, type User } from './user.js'

export type { NewUser, User } from './user.js'

/** The type of `app.users`. `tenant` is empty for the platform's own users. */
export interface Users {
  /**
   * Throws `validationFailed`; `conflict` if the tenant has a user with this address; `tenantUnknown`; `loginBusy`.
   *
   * @param action its name in the audit log
   */
  create(user: NewUser, actor: Actor, action?: 'user.create' | 'auth.register'): Promise<User>
  /** The user with this address and password; null without one, or if it is disabled, which takes as long. Throws `loginBusy`. */
  authenticate(tenant: string, email: string, password: string): Promise<User | null>
  /** Whether a user from `authenticate` still exists with the same password and role, and is not disabled. */
  isUnchanged(user: User, password: string): Promise<boolean>
  /** The hash of a new password. Throws `validationFailed` for an invalid password, and `loginBusy`. */
  hashPassword(tenant: string, password: string): Promise<string>
  /**
   * Replaces the password. false if the user does not exist or is disabled, or if `since`, a user from `authenticate`, has
   * another password now. End the user's sessions in the same transaction.
   */
  setPassword(writer: SystemTransaction, user: UserId, hash: string, since?: User): Promise<boolean>
  /** The user receives mail at the address; false without such an active user. */
  setVerified(writer: SystemTransaction, user: UserId, email: string): Promise<boolean>
  /** Also a disabled user. */
  find(tenant: string, id: string): Promise<User | null>
}

export function createUsers (store: UserStore, passwords: Passwords, now: () => number, log: FastifyBaseLogger): Users {
  /** The data against which a password was checked. */
  const checked = new WeakMap<User, string>()

  /** Returns the current hash. */
  async function renewHash (user: User, before: string, password: string): Promise<string> {
    try {
      const hash = await passwords.hash(user.tenant, password)
      return await store.replaceHash(user, before, hash, new Date(now())) ? hash : before
    } catch (err) {
      // The next login tries again.
      log.warn({ err, ...user.tenant !== platformRef && { tenant: user.tenant }, userId: user.id }, 'the hash of a password could not be renewed')
      return before
    }
  }

  return {
    async create ({ tenant: owner, email: given, password, role = defaultRole }, actor, action = 'user.create') {
      const tenant = tenantRef(owner)
      const fault = passwordFault(password)
      const details: readonly ErrorDetail[] = [
        ...identityFaults({ email: given, role }),
        ...fault === null ? [] : [{ path: '/body/password', message: fault, keyword: 'format' }]
      ]
      if (details.length > 0) throw failure('validationFailed', { extras: { details } })
      const hash = await passwords.hash(tenant, password)
      const at = new Date(now())
      const email = given.toLowerCase()
      const user: User = { id: randomUUID(), tenant, email, role, status: 'active', emailVerified: false, createdAt: at }
      await store.transaction(tenant, async (writer) => {
        if (!await lockTenant(writer, tenant, 'shared')) throw failure('tenantUnknown')
        if (!await store.insert(writer, user, hash)) throw emailTaken()
        await writeAudit(writer, { tenant, action, actor, target: email, details: { id: user.id, role }, at })
      })
      return user
    },

    async authenticate (tenant: Owner, email, password) {
      const found = await store.findByEmail(tenant, email.toLowerCase())
      const isIt = await passwords.verify(tenant, found?.hash ?? null, password)
      if (found === null || !isIt || found.user.status !== 'active') return null
      checked.set(found.user, await isOutdated(found.hash) ? await renewHash(found.user, found.hash, password) : found.hash)
      return found.user
    },

    async isUnchanged (user, password) {
      const found = await store.findByEmail(user.tenant, user.email)
      if (found === null || found.user.id !== user.id || found.user.role !== user.role || found.user.status !== 'active') return false
      // It may be another hash of the same password.
      return found.hash === checked.get(user) || await passwords.verify(user.tenant, found.hash, password)
    },

    async hashPassword (tenant: Owner, password) {
      const fault = passwordFault(password)
      if (fault !== null) throw invalidInput('/body/password', fault, 'format')
      return await passwords.hash(tenant, password)
    },

    setPassword: (writer, user, hash, since) =>
      store.setPassword(writer, user, hash, new Date(now()), since === undefined ? undefined : checked.get(since) ?? ''),

    setVerified: (writer, user, email) => store.setVerified(writer, user, email, new Date(now())),

    // An id of an identity provider is not one of ours, and not a value of the column.
    find: async (tenant: Owner, id) => uuidForm.test(id) ? store.find(tenant, id) : null
  }
}
