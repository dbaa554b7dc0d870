/** The callers of the example: users of two tenants, and the platform, which operates the server. */

export interface Person {
  /** The shell variable for the token. */
  readonly setting: string
  readonly description: string
  /** The claims of the token. */
  readonly claims: {
    readonly sub: string,
    /** Absent for the platform. */
    readonly tenant_id?: string,
    readonly role: string,
    readonly permissions?: readonly string[]
  }
}

const authorPermissions = ['articles:write', 'reviews:write']
const editorPermissions = ['articles:*', 'authors:*', 'reviews:*']

export const people = {
  author: {
    setting: 'AUTHOR_TOKEN',
    description: 'an author of the tenant "harbour": writes, edits and submits articles',
    claims: { sub: 'ada', tenant_id: 'harbour', role: 'author', permissions: authorPermissions }
  },
  editor: {
    setting: 'EDITOR_TOKEN',
    description: 'an editor of "harbour": publishes, unpublishes and deletes them too',
    claims: { sub: 'edith', tenant_id: 'harbour', role: 'editor', permissions: editorPermissions }
  },
  administrator: {
    setting: 'ADMIN_TOKEN',
    description: 'the administrator of "harbour": everything, internal notes included',
    claims: { sub: 'alan', tenant_id: 'harbour', role: 'admin' }
  },
  stranger: {
    setting: 'OTHER_TENANT_TOKEN',
    description: 'an editor of the tenant "orchard", to whom nothing of "harbour" exists',
    claims: { sub: 'otto', tenant_id: 'orchard', role: 'editor', permissions: editorPermissions }
  },
  platform: {
    setting: 'PLATFORM_TOKEN',
    description: 'the administrator of the platform: the server, all tenants and all rows',
    claims: { sub: 'piet', role: 'admin' }
  }
} satisfies Record<string, Person>
