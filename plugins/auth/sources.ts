/** Decorators that other plugins add and auth reads: revoked tokens, API keys of tenants, and roles. */
import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Claims } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import type { PermissionSet } from './permissions.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Revoked tokens. Added by the plugin sessions. */
    revocations: RevocationList
    /** The API keys of tenants. Added by the plugin api-keys. */
    apiKeys: ApiKeyOwners
    /** Roles of the platform. Added by the plugin rbac. */
    platformRoles: RoleSource
    /** Roles of tenants. Added by the plugin tenant-rbac. */
    tenantRoles: TenantRoleSource
  }
}

/** Throws, or rejects with, `rateLimited` if the sender has sent too many unknown keys. */
export type Admit = () => void | Promise<void>

export interface ApiKeyOwners {
  /**
   * The claims of a key's owner, frozen; null for an unknown or invalid key. Awaits `admit` before it looks up a key that is not cached, so
   * that guesses are limited.
   */
  find(key: string, admit: Admit): Claims | null | Promise<Claims | null>
  /** The same for a key that was found before; null if its text is no longer valid. `text`: `keyTextOf` its claims. */
  recall(tenant: Owner, id: string, text: string): Claims | null | Promise<Claims | null>
}

export interface RoleSource {
  /** The permissions of the caller's role in the tenant of the request. */
  permissionsOf(auth: Claims, tenant?: Owner): PermissionSet | Promise<PermissionSet>
}

export interface TenantRoleSource extends RoleSource {
  /** The permissions of the role once the tenant's roles are enabled. */
  declaredBy?(role: string, tenant: Owner): PermissionSet | Promise<PermissionSet>
  /** Whether the tenant has a role with this name, enabled or not. */
  isDeclared?(role: string, tenant: Owner): boolean | Promise<boolean>
}

export type Sources = ReturnType<typeof sourcesOf>

/** Each function returns null, or omits a source, until a plugin has added it. */
export function sourcesOf (app: FastifyInstance) {
  const roles = [optional(app, 'platformRoles'), optional(app, 'tenantRoles')]
  return {
    revocations: optional(app, 'revocations'),
    apiKeys: optional(app, 'apiKeys'),
    roles: () => roles.flatMap((source) => source() ?? [])
  }
}

export interface RevocationList {
  /** Changes with every received revocation. A checked token is checked again only then. */
  readonly version: number
  /**
   * Whether the token was revoked. A rejection is the caller's response.
   *
   * @param id creates the token's id, see `tokenId`
   */
  refuses(claims: Claims, id: () => string): boolean | Promise<boolean>
}

/** A list without revoked tokens. */
export const noRevocations: RevocationList = { version: 0, refuses: () => false }

/** For a token: base64url of SHA-256 of the signed part, since another text can have the same signature. */
export function tokenId (token: string): string {
  return hash('sha256', token.slice(0, Math.max(0, token.lastIndexOf('.'))), 'base64url')
}
