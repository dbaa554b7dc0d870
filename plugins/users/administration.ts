/** The administration of a tenant's users, and invitations. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type AttemptRule, createAttemptLimiter } from '../../lib/database/attempt-limiter.js'
import { type Actor, type AuditEntry, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure } from '../../lib/errors.js'
import type { Page } from '../../lib/http/page.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import { hourMs } from '../../lib/time/spans.js'
import { deleteKeysOf, isKeyOf, subOfKey } from '../api-keys/store.js'
import { isPlatformAdmin } from '../auth/access.js'
import type { Author } from '../auth/actor.js'
import { noPermissions, requireGrant, unionOf } from '../auth/permissions.js'
import { linkLife, type LinkToken } from '../mail/links.js'
import type { LoggedIn } from '../sessions/login-response.js'
import { requirePresent } from '../sessions/present.js'
import type { UserChanges, UserFilter, UserStore } from './store.js'
import { defaultRole, emailTaken, type User } from './user.js'

/** Mails to one address. */
const invitationsToAddress: AttemptRule = { kind: 'mail.invite', max: 3, windowMs: hourMs }
/** Mails of one caller. */
const invitationsOfCaller: AttemptRule = { kind: 'invite', max: 100, windowMs: hourMs }
/** Mails of one tenant, whose administrators can create any number of callers. */
const invitationsOfTenant: AttemptRule = { kind: 'invite.tenant', max: 1000, windowMs: hourMs }

/** Throws `notFound` for users that the tenant does not have. */
export type UserAdministration = ReturnType<typeof createUserAdministration>

export function createUserAdministration (app: FastifyInstance, store: UserStore, now: () => number) {
  const { auth, engine: { kyselyFor: dbFor }, sessions, users } = app
  const mail = optional(app, 'mail')()
  const tenantRoles = optional(app, 'tenantRoles')
  const attempts = createAttemptLimiter(dbFor, now)
  const at = () => new Date(now())

  async function read (tenant: Owner, id: string): Promise<User> {
    const user = await users.find(tenant, id)
    if (user === null) throw failure('notFound')
    return user
  }

  /** Throws `grantExceeds` unless the author holds all permissions of the role, also those that are disabled now. */
  async function requireRole ({ held }: Author, tenant: Owner, id: string, role: string): Promise<void> {
    if (role === 'admin') return requireGrant(held, ['*'])
    const given = await auth.permissionsOf({ sub: id, role, tenant_id: tenant }, tenant)
    const declared = await tenantRoles()?.declaredBy?.(role, tenant) ?? noPermissions
    requireGrant(held, unionOf([given, declared]).values())
  }

  /** As `requireRole`. Throws also for a name that is no role yet: with a later role of this name, the user would get its permissions. */
  async function requireNewRole (author: Author, tenant: Owner, id: string, role: string): Promise<void> {
    await requireRole(author, tenant, id, role)
    if (role === defaultRole || role === author.claims.role || author.held.has('*')) return
    const roles = tenantRoles()
    // Without roles of tenants, a name never gets permissions.
    if (roles?.isDeclared === undefined || await roles.isDeclared(role, tenant)) return
    throw failure('grantExceeds', {
      message: `The tenant has no role "${role}", so only an administrator can give it: create the role first`
    })
  }

  /**
   * The user, if the author may change it: the author must hold the user's current and new permissions. Runs before the
   * transaction, since roles are read on another connection.
   */
  async function allowed (tenant: Owner, given: string, { role }: UserChanges, author: Author): Promise<User> {
    const user = await read(tenant, given)
    // The given id may have capital letters.
    const { id } = user
    if (author.claims.sub === id && author.claims.tenant_id === tenant) {
      throw failure('forbidden', { message: 'You cannot change or delete your own user: ask another administrator' })
    }
    await requireRole(author, tenant, id, user.role)
    if (role !== undefined && role !== user.role) await requireNewRole(author, tenant, id, role)
    return user
  }

  /** Reads the user again in the transaction; checks that the author's key is not one of the user, and that an administrator is left. */
  async function locked (
    writer: SystemTransaction,
    { tenant, id, role: judged }: User,
    { role, status }: UserChanges,
    author: Author
  ): Promise<User> {
    const user = await store.read(writer, { tenant, id })
    if (user === null) throw failure('notFound')
    if (await isKeyOf(writer, tenant, user.id, author.claims)) {
      throw failure('forbidden', {
        message: 'Your API key was created or rotated by this user, so it cannot change or delete the user: ask another administrator'
      })
    }
    if (user.role !== judged) throw failure('stateConflict', { message: 'The user was changed by another request: read it again' })
    const staysAdministrator = (role ?? user.role) === 'admin' && (status ?? user.status) === 'active'
    const isAdministrator = user.role === 'admin' && user.status === 'active'
    if (isAdministrator && !staysAdministrator && !isPlatformAdmin(author.claims) && !await store.hasOtherAdministrator(writer, user)) {
      throw failure('stateConflict', { message: 'This is the last administrator of the tenant: make another user an administrator first' })
    }
    return user
  }

  /** Ends everything of a user besides sessions, so that the user cannot come back. */
  async function endBelongings (writer: SystemTransaction, { tenant, id }: User, actor: Actor): Promise<void> {
    const keys = await deleteKeysOf(writer, tenant, id)
    await mail?.links.removeTo(writer, tenant, id)
    await mail?.links.removeFrom(writer, tenant, [id, ...keys.map(subOfKey)])
    const entries = keys.map((key): AuditEntry => ({
      tenant,
      action: 'api_key.delete',
      actor,
      target: key,
      details: { user: id },
      at: at()
    }))
    if (entries.length > 0) await writeAudit(writer, ...entries)
  }

  return {
    list: (tenant: Owner, filter: UserFilter, page: Page): Promise<{ data: User[], total: number }> => store.list(tenant, filter, page),

    read,

    /**
     * A new role ends the user's tokens; a disabled user also loses sessions, API keys and invitations. Throws `forbidden` for the caller
     * itself, also with a key of its own, `grantExceeds`, `stateConflict` for the last administrator, and `tokenInvalid` if the author has
     * ended meanwhile.
     */
    async update (tenant: Owner, id: string, given: UserChanges, author: Author): Promise<User> {
      const known = await allowed(tenant, id, given, author)
      return await sessions.changeUsers(tenant, async (writer, end) => {
        await requirePresent(writer, author.claims, at(), auth.providers)
        const user = await locked(writer, known, given, author)
        const changes: UserChanges = {
          ...given.role !== undefined && given.role !== user.role && { role: given.role },
          ...given.status !== undefined && given.status !== user.status && { status: given.status }
        }
        if (Object.keys(changes).length === 0) return user
        const { actor } = author
        await store.update(writer, user, changes, at())
        const details = { id: user.id, ...changes }
        await writeAudit(writer, { tenant, action: 'user.update', actor, target: user.email, details, at: at() })
        if (changes.status === 'disabled') {
          await end(user.id, 'sessions')
          await endBelongings(writer, user, actor)
        } else if (changes.role !== undefined) await end(user.id, 'tokens')
        return { ...user, ...changes }
      })
    },

    /** Throws the same errors as `update`. */
    async delete (tenant: Owner, id: string, author: Author): Promise<void> {
      const known = await allowed(tenant, id, {}, author)
      await sessions.changeUsers(tenant, async (writer, end) => {
        await requirePresent(writer, author.claims, at(), auth.providers)
        const user = await locked(writer, known, { status: 'disabled' }, author)
        await end(user.id, 'sessions')
        await endBelongings(writer, user, author.actor)
        await store.delete(writer, user)
        await writeAudit(writer, {
          tenant,
          action: 'user.delete',
          actor: author.actor,
          target: user.email,
          details: { id: user.id },
          at: at()
        })
      })
    },

    /** Sends a link to a new user. Throws `mailNotConfigured`, `grantExceeds`, `conflict`, `tooManyAttempts`, `tenantUnknown`. */
    async invite (
      tenant: Owner,
      { email: given, role = defaultRole }: { readonly email: string, readonly role?: string | undefined },
      author: Author
    ): Promise<{ id: string, expiresAt: Date }> {
      if (mail === null) throw failure('mailNotConfigured')
      mail.requireConfigured()
      const email = given.toLowerCase()
      const id = randomUUID()
      await requireNewRole(author, tenant, id, role)
      if (await store.findByEmail(tenant, email) !== null) throw emailTaken()
      const { actor, claims: { sub } } = author
      await attempts.consume(invitationsOfCaller, tenant, sub)
      await attempts.consume(invitationsOfTenant, tenant, '')
      await attempts.consume(invitationsToAddress, tenant, email)
      const expiresAt = new Date(now() + linkLife)
      await dbFor(tenant).transaction().execute(async (writer) => {
        // Alone: the author may be ending.
        if (!await lockTenant(writer, tenant, 'alone')) throw failure('tenantUnknown')
        await requirePresent(writer, author.claims, at(), auth.providers)
        await mail.links.invite(writer, { tenant, email, userId: id, role, invitedBy: sub, expiresAt })
        await mail.post({ kind: 'invite', tenant, email, actor }, writer)
        await writeAudit(writer, { tenant, action: 'user.invite', actor, target: email, details: { id, role }, at: at() })
      })
      return { id, expiresAt }
    },

    /** Creates the user of an invitation. Throws `linkInvalid`, `validationFailed`, `conflict`. */
    async accept (token: LinkToken, password: string, actor: Actor): Promise<LoggedIn> {
      const { tenant } = token
      if (mail === null || await mail.links.find('invite', token) === null) throw failure('linkInvalid')
      const hash = await users.hashPassword(tenant, password)
      const user = await dbFor(tenant).transaction().execute(async (writer): Promise<User> => {
        if (!await lockTenant(writer, tenant, 'shared')) throw failure('linkInvalid')
        const link = await mail.links.use(writer, 'invite', token)
        if (link === null || link.role === null) throw failure('linkInvalid')
        const { email, userId: id, role } = link
        // The link was sent to this address.
        const user: User = { id, tenant, email, role, status: 'active', emailVerified: true, createdAt: at() }
        if (!await store.insert(writer, user, hash)) throw emailTaken()
        await writeAudit(writer, {
          tenant,
          action: 'user.accept',
          actor: { ...actor, userId: id },
          target: email,
          details: { id, role },
          at: at()
        })
        return user
      })
      return { ...await sessions.begin(user, ['pwd']), user }
    }
  }
}
