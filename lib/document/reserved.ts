/** Paths of routes, and the paths of built-in endpoints, which routes of a document cannot have. */

/** A segment of a path; the text of a `parameter` is its name. */
export interface Segment {
  readonly kind: 'text' | 'parameter' | 'rest'
  readonly text: string
}

const parameterName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/
const plainSegment = /^[A-Za-z0-9._~!$&'+,;=@-]+$/

/** Splits a path; returns a string with the fault of an invalid one. */
export function parsePath (path: string): readonly Segment[] | string {
  if (!path.startsWith('/')) return 'expected a path that starts with "/"'
  if (path === '/') return []
  const segments: Segment[] = []
  const names = new Set<string>()
  for (const text of path.slice(1).split('/')) {
    if (text === '') return path.endsWith('/') ? 'a path cannot end with "/"' : 'a path cannot have empty segments'
    if (text === '.' || text === '..') return 'a path cannot have the segments "." and ".."'
    if (text.includes('*')) return 'a path cannot have wildcards; `:name` matches one segment'
    if (text.startsWith(':')) {
      const name = text.slice(1)
      if (!parameterName.test(name)) return `"${text}" is not a valid parameter: expected ":" and a name of letters, digits and underscores`
      if (names.has(name)) return `the parameter "${text}" appears twice in the path`
      names.add(name)
      segments.push({ kind: 'parameter', text: name })
    } else if (plainSegment.test(text)) {
      segments.push({ kind: 'text', text })
    } else if (text.includes(':')) {
      return `in "${text}" the parameter must be the whole segment`
    } else if (/^\{\w+\}$/.test(text)) {
      return `"${text}" is not a parameter: write ":${text.slice(1, -1)}"`
    } else {
      return `"${text}" contains a character that must be percent-encoded in a path`
    }
  }
  return segments
}

/** The identity of a path, without the names of its parameters. */
export function shapeOf (segments: readonly Segment[]): string {
  return `/${segments.map((segment) => segment.kind === 'text' ? segment.text : ':').join('/')}`
}

/** By the group that a document turns off to use the path; either group, if a path has two. */
const builtIn: Readonly<Record<string, readonly string[]>> = {
  health: ['/health'],
  openapi: ['/ui', '/ui/*', '/doc', '/doc/*'],
  migration: ['/migration', '/migration/status', '/migration/quick-fix', '/migration/apply'],
  admin: ['/admin/entities/:table', '/admin/entities/:table/:id', '/admin/entities/:table/:id/restore'],
  agent: [
    '/agent/health',
    '/agent/chat',
    '/agent/embeddings',
    '/agent/embeddings/document',
    '/agent/embeddings/document/:id',
    '/agent/embeddings/documents',
    '/agent/embeddings/search',
    '/agent/embeddings/batch',
    '/agent/embeddings/batch/:id',
    '/agent/embeddings/reindex',
    '/agent/conversations',
    '/agent/conversations/:id',
    '/mcp',
    '/.well-known/oauth-protected-resource/mcp',
    '/agent/mcp/servers',
    '/agent/mcp/tools',
    '/agent/mcp/execute',
    '/agent/workflow',
    '/agent/workflow/run',
    '/agent/workflow/runs',
    '/agent/workflow/status',
    '/agent/workflow/cancel',
    '/agent/workflows',
    '/llm/stream',
    '/llm/chat',
    '/llm/models'
  ],
  analytics: ['/analytics/summary'],
  'api-keys': ['/tenant/api-keys', '/tenant/api-keys/:id', '/tenant/api-keys/:id/rotate'],
  audit: ['/audit'],
  billing: [
    '/billing/plans',
    '/billing/subscription',
    '/billing/subscription/sync',
    '/billing/usage',
    '/billing/upgrade',
    '/billing/webhook/payprov',
    '/webhooks/billing/altprov'
  ],
  files: [
    '/files/upload',
    '/files/presign',
    '/files/resumable',
    '/files/resumable/:id',
    '/files/:fileId',
    '/files/:fileId/confirm',
    '/files/:fileId/content',
    '/files/download/:bucket/*',
    '/files/signed-url/:bucket/*',
    '/files/entity/:entityType/:entityId'
  ],
  integrations: ['/integrations/:type/:action'],
  login: [
    '/auth/login',
    '/auth/register',
    '/auth/logout',
    '/auth/logout-all',
    '/auth/mfa/verify',
    '/auth/refresh',
    '/auth/password',
    '/auth/password/forgot',
    '/auth/password/reset',
    '/auth/email/verify',
    '/auth/email/resend',
    '/auth/me'
  ],
  mfa: [
    '/mfa/setup',
    '/mfa/verify',
    '/mfa/enable',
    '/mfa/disable',
    '/mfa/status',
    '/mfa/backup-codes',
    '/mfa/backup-codes/verify',
    '/auth/mfa/verify'
  ],
  publish: ['/publish/init', '/publish/verify', '/publish/entity'],
  rbac: [
    '/rbac/roles',
    '/rbac/roles/:id',
    '/rbac/permissions',
    '/rbac/permissions/:id',
    '/rbac/assign',
    '/rbac/unassign',
    '/rbac/users/:id/roles',
    '/rbac/users/:id/permissions'
  ],
  realtime: ['/realtime', '/realtime/events', '/doc/realtime'],
  'resource-limits': [
    '/tenant/limits/resources',
    '/tenant/limits/resources/usage',
    '/tenant/limits/resources/check',
    '/tenant/limits/resources/track'
  ],
  secrets: ['/tenant/secrets', '/tenant/secrets/audit', '/tenant/secrets/rotate', '/tenant/secrets/:key', '/tenant/secrets/:key/rotate'],
  system: [
    '/system/info',
    '/metrics',
    '/cache/stats',
    '/cache/keys',
    '/cache/clear',
    '/cache/key/:key',
    '/queue/stats',
    '/queue/jobs',
    '/queue/jobs/:id',
    '/queue/jobs/:id/retry'
  ],
  tenancy: ['/tenant/info', '/tenants', '/tenants/:id'],
  'tenant-billing': [
    '/billing/tenant/products',
    '/billing/tenant/checkout',
    '/billing/tenant/customers',
    '/billing/tenant/customers/:id/state',
    '/billing/tenant/subscriptions',
    '/billing/tenant/subscriptions/:id'
  ],
  'tenant-config': ['/tenant/config', '/tenant/config/versions'],
  'tenant-rbac': ['/tenant/rbac', '/tenant/rbac/roles', '/tenant/rbac/roles/:name'],
  usage: ['/usage/summary', '/usage/history', '/billing/usage'],
  users: ['/users', '/users/:id', '/users/invite', '/auth/invite/accept'],
  webhooks: ['/webhooks/deliveries', '/webhooks/deliveries/:id/redeliver', '/webhooks/secret']
}

/** The path of a built-in endpoint. */
export interface ReservedPath {
  readonly path: string
  /** The groups of the path. */
  readonly plugins: readonly string[]
  readonly segments: readonly Segment[]
}

export const reservedPaths: readonly ReservedPath[] = Array.from(new Set(Object.values(builtIn).flat()), (path) => {
  const plugins = Object.keys(builtIn).filter((plugin) => builtIn[plugin]?.includes(path))
  return { path, plugins, segments: path.slice(1).split('/').map(segmentOf) }
})

/** Without a rate limit: probes, and providers that sign their calls. */
export const unlimitedPaths: ReadonlySet<string> = new Set(['/health', '/billing/webhook/payprov', '/webhooks/billing/altprov'])

/** By their first segment: a document has many routes, and most begin as no built-in path does. */
const reservedByStart = new Map<string, ReservedPath[]>()
for (const reserved of reservedPaths) {
  const start = startOf(reserved.segments)
  reservedByStart.set(start, [...reservedByStart.get(start) ?? [], reserved])
}

/** Its text; empty for the start of any other kind. */
function startOf ([first]: readonly Segment[]): string {
  return first?.kind === 'text' ? first.text : ''
}

/** The names of all groups of built-in endpoints. */
export const builtInGroups: ReadonlySet<string> = new Set(Object.keys(builtIn))

function segmentOf (text: string): Segment {
  if (text === '*') return { kind: 'rest', text }
  return text.startsWith(':') ? { kind: 'parameter', text: text.slice(1) } : { kind: 'text', text }
}

/** Whether a document that turns off the groups `off` may use the path. */
export function isTurnedOff ({ plugins }: ReservedPath, off: ReadonlySet<string>): boolean {
  return plugins.some((plugin) => off.has(plugin))
}

/** The built-in path whose requests a route would take: the same path, or one that a parameter of the route matches. */
export function reservedBy (segments: readonly Segment[]): ReservedPath | undefined {
  const start = startOf(segments)
  const isCovered = (reserved: ReservedPath) => covers(reserved.segments, segments)
  return reservedByStart.get(start)?.find(isCovered) ?? (start === '' ? undefined : reservedByStart.get('')?.find(isCovered))
}

function covers (reserved: readonly Segment[], route: readonly Segment[]): boolean {
  for (const [index, segment] of reserved.entries()) {
    if (segment.kind === 'rest') return route.length > index
    const other = route[index]
    if (other === undefined) return false
    if (segment.kind === 'text' && (other.kind !== 'text' || other.text !== segment.text)) return false
  }
  return reserved.length === route.length
}
