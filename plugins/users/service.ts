/** What `app.users` offers: users with passwords, of tenants and of the platform (DESIGN 5). */
import type { FastifyBaseLogger } from 'fastify'
import type { Actor } from '../../lib/audit.js'
import type { Passwords } from '../../lib/passwords.js'
import type { UserStore } from './store.js'
import type { ErrorDetail } from '../../lib/validation.js'
import type { NewUser, User } from './user.js'
import { randomUUID } from 'node:crypto'
import { writeAudit } from '../../lib/audit.js'
import { holdTenant } from '../../lib/database/tenant-hold.js'
import { failure } from '../../lib/errors.js'
import { isOutdated, passwordFault } from '../../lib/passwords.js'
import { defaultRole, identityFaults } from './user.js'

export type { NewUser, User } from './user.js'

/** What `app.users` is. `tenant` is empty for the platform's own users. */
export interface Users {
  /**
   * Throws `validationFailed`; `conflict` where the tenant has a user of this address; `tenantUnknown` where there is no such
   * tenant; `loginBusy`.
   *
   * @param action how the audit log calls it
   */
  create (user: NewUser, actor: Actor, action?: 'user.create' | 'auth.register'): Promise<User>
  /** The user whose address and password these are; null where there is none, or one that is disabled, which takes as long. Throws `loginBusy`. */
  authenticate (tenant: string, email: string, password: string): Promise<User | null>
  /** Whether a user whom `authenticate` has given is still there with that password and role, and not disabled. */
  isUnchanged (user: User, password: string): Promise<boolean>
  /** Also one that is disabled. */
  find (tenant: string, id: string): Promise<User | null>
}

export interface UsersParts {
  readonly store: UserStore
  readonly passwords: Passwords
  readonly now: () => number
  readonly log: FastifyBaseLogger
}

const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i

export function createUsers ({ store, passwords, now, log }: UsersParts): Users {
  /** What the password of a user was checked against. */
  const checked = new WeakMap<User, string>()

  async function renewHash (user: User, before: string, password: string): Promise<void> {
    try {
      await store.replaceHash(user, before, await passwords.hash(user.tenant, password), new Date(now()))
    } catch (err) {
      // The next login tries again.
      log.warn({ err, ...user.tenant !== '' && { tenant: user.tenant }, userId: user.id }, 'the hash of a password could not be renewed')
    }
  }

  return {
    async create ({ tenant, email: given, password, role = defaultRole }, actor, action = 'user.create') {
      const fault = passwordFault(password)
      const details: readonly ErrorDetail[] = [
        ...identityFaults({ email: given, role }),
        ...fault === null ? [] : [{ path: '/body/password', message: fault, keyword: 'format' }]
      ]
      if (details.length > 0) throw failure('validationFailed', { extras: { details } })
      const hash = await passwords.hash(tenant, password)
      const at = new Date(now())
      const user: User = { id: randomUUID(), tenant, email: given.toLowerCase(), role, status: 'active', emailVerified: false, createdAt: at }
      await store.transaction(tenant, async (writer) => {
        if (!await holdTenant(writer, tenant, 'shared')) throw failure('tenantUnknown')
        if (!await store.insert(writer, user, hash)) throw failure('conflict', { message: 'There is a user of this e-mail address already' })
        await writeAudit(writer, { tenant, action, actor, target: user.email, details: { id: user.id, role }, at })
      })
      return user
    },

    async authenticate (tenant, email, password) {
      const found = await store.findByEmail(tenant, email.toLowerCase())
      const isIt = await passwords.verify(tenant, found?.hash ?? null, password)
      if (found === null || !isIt || found.user.status !== 'active') return null
      if (await isOutdated(found.hash)) await renewHash(found.user, found.hash, password)
      checked.set(found.user, found.hash)
      return found.user
    },

    async isUnchanged (user, password) {
      const found = await store.findByEmail(user.tenant, user.email)
      if (found === null || found.user.id !== user.id || found.user.role !== user.role || found.user.status !== 'active') return false
      // It may be another hash of the same password.
      return found.hash === checked.get(user) || await passwords.verify(user.tenant, found.hash, password)
    },

    // An id of an identity provider is none of ours, and no value of the column.
    find: async (tenant, id) => uuid.test(id) ? store.find(tenant, id) : null
  }
}
