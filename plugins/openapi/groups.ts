/** The groups of `/doc` and `/ui`, and their order: the app's own routes come first, then the built-in groups. */
import type { Documentation } from './documentation.js'

/** The tags of the built-in endpoints, in the order of the document. */
export const builtInGroups = [
  'Login',
  'Sessions',
  'Passwords',
  'Users',
  'Multi-factor authentication',
  'Tenants',
  'Tenant configuration',
  'Roles',
  'API keys',
  'Secrets',
  'Resource limits',
  'Usage',
  'Billing',
  'Tenant billing',
  'Files',
  'Realtime',
  'Models',
  'Documents and search',
  'Agent',
  'MCP',
  'Webhooks',
  'Integrations',
  'Workflows',
  'Admin',
  'Platform roles',
  'Audit',
  'Queue',
  'Cache',
  'Migration',
  'Publishing',
  'System'
]

const positions = new Map(builtInGroups.map((name, index) => [name, index]))

/** Routes of a configuration document. */
export const declared = 0
/** Other routes of the app. */
const own = 1
const builtIn = 2

export function tagsOf ({ tags = [] }: Documentation, template: string): readonly string[] {
  return tags.length > 0 ? tags : [firstSegment(template)]
}

/** The rank of a route: the lowest comes first. */
export function rankOf (documentation: Documentation): number {
  if (documentation.declared === true) return declared
  return documentation.tags?.some((tag) => positions.has(tag)) === true ? builtIn : own
}

export function tagRank (tag: string, rank: number): number {
  return rank === builtIn ? builtIn + (positions.get(tag) ?? 0) : rank
}

/** The first named segment of a path: `/articles/{id}` -> `articles`. */
export function firstSegment (path: string): string {
  return path.split('/').find((segment) => /^[^{:*]+$/.test(segment)) ?? 'default'
}
