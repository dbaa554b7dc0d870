/**
 * Security rules of Firestore, for programs that read and write documents without the server. They allow what a route allows to every user
 * of a tenant on any document of a collection, and deny all else: rules know neither permissions nor filters.
 */
import { tenantIdPattern } from '../identity/tenant-ref.js'
import { mentions } from '../json/plain-value.js'
import type { DocumentQuery, Filter } from '../schema/query.js'
import type { Route } from '../schema/route.js'
import { tenantsCollection } from './paths.js'

const methods = ['get', 'list', 'create', 'update', 'delete'] as const
type Method = typeof methods[number]

const methodsOf = {
  get: ['get'],
  query: ['list'],
  create: ['create'],
  add: ['create'],
  set: ['create', 'update'],
  update: ['update'],
  delete: ['delete']
} as const satisfies Record<DocumentQuery['operation'], readonly Method[]>

/** Members of a route that restrict neither its callers nor its data. Routes with others are not translated. */
const openRoute: ReadonlySet<string> = new Set<keyof Route>([
  'path', 'method', 'description', 'tags', 'public', 'requireAuth', 'authProvider', 'firebaseQueries', 'cache', 'mcp'
])
/** The same of a query. */
const openQuery: ReadonlySet<string> = new Set<keyof DocumentQuery>([
  'collection', 'store', 'operation', 'docId', 'filters', 'data', 'merge', 'order', 'pagination', 'limit', 'offset',
  'alias'
])

/** The parts of a configuration that determine the rules. */
export interface DirectAccess {
  readonly firebase?: { readonly isDefault: boolean, readonly sharedCollections: readonly string[] }
  readonly authProviders: Readonly<Record<string, { readonly tenantClaim?: string | undefined }>>
  readonly routes: readonly Route[]
}

/** An id that the caller chooses. */
const chosenId = /^\{\{(?:params|query|body)\.\w+\}\}$/
/** Names without special meaning in the path of a rule, and in a comment. */
const plainName = /^[A-Za-z0-9_-]+$/
/** Names of claims without special meaning in a text of rules. */
const plainClaim = /^[\w.:/-]+$/
const defaultClaim = 'tenant_id'

/** The rules of a document; undefined without Firestore. */
export function securityRules ({ firebase, authProviders, routes }: DirectAccess): string | undefined {
  if (firebase === undefined) return undefined
  const collections = collectionsOf(routes, firebase.isDefault, authProviders['firebase'] !== undefined)
  for (const name of firebase.sharedCollections) if (!collections.has(name)) collections.set(name, new Set())
  const shared = new Set(firebase.sharedCollections)
  const claim = authProviders['firebase'] === undefined ? defaultClaim : authProviders['firebase'].tenantClaim
  const tenant = claim === undefined || !plainClaim.test(claim) ? undefined : claimOf(claim)

  const closed: string[] = []
  const rules: string[] = []
  for (const [name, allowed] of [...collections].sort(([a], [b]) => a < b ? -1 : 1)) {
    const isShared = shared.has(name)
    const list = methods.filter((method) => allowed.has(method) && (!isShared || method === 'get' || method === 'list'))
    if (list.length === 0 || !plainName.test(name) || (!isShared && tenant === undefined)) closed.push(name)
    else if (isShared) rules.push(ruleOf(name, list, 'request.auth != null'))
    else rules.push(ruleOf(`${tenantsCollection}/{tenant}/${name}`, list, 'isOf(tenant)'))
  }
  return [
    "rules_version = '2';",
    '',
    '// For programs that use Firestore without the server, which is not bound by rules. They allow what a route allows to every user',
    '// of a tenant. They know no permissions, plans and limits, and a suspended tenant is not denied.',
    'service cloud.firestore {',
    '  match /databases/{database}/documents {',
    ...tenant === undefined
      ? ['    // No claim names the tenant of a caller: set `authProviders.firebase.tenantClaim`.', '']
      : [
          '    function isOf(tenant) {',
          `      return request.auth != null && ${tenant} == tenant && tenant.matches('${tenantIdPattern}');`,
          '    }',
          ''
        ],
    ...rules.flatMap((rule) => [rule, '']),
    ...closed.length === 0 ? [] : [`    // Through the server only: ${closed.map(printable).join(', ')}`],
    '    match /{document=**} {',
    '      allow read, write: if false;',
    '    }',
    '  }',
    '}'
  ].join('\n')
}

/** The operations of open routes on each collection of Firestore. */
function collectionsOf (routes: readonly Route[], isDefault: boolean, hasProvider: boolean): Map<string, Set<Method>> {
  const found = new Map<string, Set<Method>>()
  const secret = new Set<string>()
  for (const route of routes) {
    const queries = route.firebaseQueries ?? []
    // Several queries depend on one another: if one finds nothing, none is made.
    const isOpen = hasOnly(route, openRoute) && queries.length === 1 && admitsUsers(route, hasProvider)
    for (const query of queries) {
      const { collection, store, operation, data } = query
      if (collection === undefined || (store ?? (isDefault ? 'firestore' : 'sql')) !== 'firestore') continue
      const allowed = found.get(collection) ?? new Set()
      found.set(collection, allowed)
      if (isOpen && isOpenQuery(query)) for (const method of methodsOf[operation]) allowed.add(method)
      // The server never returns values of secrets.
      if (mentions(data, /\bsecret\b|\benv\b|\$\{/)) secret.add(collection)
    }
  }
  for (const collection of secret) for (const method of ['get', 'list'] as const) found.get(collection)?.delete(method)
  return found
}

/** With the provider `firebase`, tokens of Firebase's users are refused on routes for tokens of the document's own key. */
function admitsUsers ({ authProvider = 'jwt', requireAuth = false, public: isPublic = true }: Route, hasProvider: boolean): boolean {
  return authProvider === 'firebase' || (authProvider === 'jwt' && (!hasProvider || (!requireAuth && isPublic)))
}

function isOpenQuery (query: DocumentQuery): boolean {
  const { docId, data = '{{body}}', filters = [] } = query
  return hasOnly(query, openQuery) && data === '{{body}}' && filters.every(isOptional) &&
    (docId === undefined || (typeof docId === 'string' && chosenId.test(docId)))
}

/** A filter that the caller can leave out. */
function isOptional (filter: Filter): boolean {
  return 'column' in filter && filter.optional === true && typeof filter.value === 'string' && /^\{\{query\.\w+\}\}$/.test(filter.value)
}

function hasOnly (value: Route | DocumentQuery, members: ReadonlySet<string>): boolean {
  return Object.keys(value).every((name) => members.has(name))
}

function ruleOf (path: string, list: readonly Method[], condition: string): string {
  return [`    match /${path}/{document} {`, `      allow ${list.join(', ')}: if ${condition};`, '    }'].join('\n')
}

/** As the provider `firebase` reads it: the claim of that name, or else the one at the end of the path. */
function claimOf (claim: string): string {
  const names = claim.split('.')
  const nested = names.length === 1 ? "''" : `request.auth.token.get([${names.map((name) => `'${name}'`).join(', ')}], '')`
  return `request.auth.token.get('${claim}', ${nested})`
}

/** A name in a comment, which no character ends. */
function printable (name: string): string {
  return plainName.test(name)
    ? name
    : JSON.stringify(name).replace(/[^\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
