/** Checks the document that a tenant saves, and adds its defaults. One error holds all faults. */
import findMyWay from 'find-my-way'
import type { Static, TSchema } from 'typebox'
import { compileRoute } from '../compiler/route.js'
import { methodOf } from '../compiler/route-parts.js'
import { createYielder, type Yielder } from '../concurrency/event-loop-yielder.js'
import { unknownConnectors } from '../connectors/index.js'
import { tenantWebhookSources } from '../connectors/outbound-webhook.js'
import { toPlain } from '../document/json.js'
import { readAs, type Reading } from '../document/reader.js'
import { builtInGroups, parsePath, reservedBy } from '../document/reserved.js'
import { limitedNames } from '../document/rules/endpoint-limits.js'
import { checkRoutes, checkWebhooks, checkWorkflows } from '../document/rules/routes.js'
import { checkOrigins } from '../document/rules/sections.js'
import { toolOf } from '../document/rules/tools.js'
import type { Entry } from '../document/sections.js'
import { webhookRoutes } from '../document/webhook-routes.js'
import { failure } from '../errors.js'
import { SecretUses } from '../expressions/secret-uses.js'
import { isMethod, maxParamLength } from '../http/route-paths.js'
import { deepFreeze, isRecord } from '../json/plain-value.js'
import type { SchemaNode } from '../schema/annotations.js'
import { FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import { Workflow } from '../schema/workflow.js'
import { createWorkflowSet, type WorkflowContext, type WorkflowSet } from '../workflows/index.js'
import { maxFaults, membersOf } from './bounds.js'
import { connectorsOf, routeContextOf, type TakenRoute, type TenantDocumentContext } from './context.js'
import { compose, readingOf, readSections, type TenantDocument } from './read.js'
import { type TenantRateLimit, TenantRoute } from './schema.js'
import { secretParts } from './secret-parts.js'

// The maximum segments of a path: the cost of building a router grows with their number times the number of routes.
const maxSegments = 32
const maxParameters = 16
const maxSuggestions = 5 // for unknown endpoints, because each suggestion compares all routes

export interface CheckedTenantDocument {
  /** With defaults, frozen. */
  readonly document: TenantDocument
  /** The keys of the secrets that it names, sorted. */
  readonly secrets: readonly string[]
  /** JSON Pointers of the parts that determine the use of a secret. */
  readonly secretParts: readonly string[]
}

/**
 * Checks a document that a tenant saves, also against the tables of the database. It compiles every route, in turns of 2 ms.
 * Rejects with a ConfigError of at most 100 faults. If there are none, it may reject with `routeConflict`, which names each route
 * that would shadow one of the server's own.
 */
export async function checkTenantDocument (
  input: unknown,
  context: TenantDocumentContext,
  yielder = createYielder()
): Promise<CheckedTenantDocument> {
  if (yielder.shouldYield()) await yielder.yield()
  const written = await membersOf(input, yielder)
  const faults = new FaultList(maxFaults)
  const reading = readingOf(faults)
  const { routes: writtenRoutes, workflows: writtenWorkflows, ...others } = written
  const plain = toPlain(others, faults)
  if (yielder.shouldYield()) await yielder.yield()
  const sections = readSections({
    ...isRecord(plain) && plain,
    ...Object.hasOwn(written, 'routes') && { routes: writtenRoutes },
    ...Object.hasOwn(written, 'workflows') && { workflows: writtenWorkflows }
  }, reading)
  if (yielder.shouldYield()) await yielder.yield()
  const declared = await readEach(writtenRoutes, '/routes', TenantRoute, reading, yielder)
  const workflows = await readEach(writtenWorkflows, '/workflows', Workflow, reading, yielder)
  const document = faults.faults.length > 0
    ? undefined
    : compose(sections, declared.map(({ value }) => value), workflows.map(({ value }) => value))
  const routes = [...declared, ...webhookRoutes(document?.webhooks ?? [])]

  checkRoutes(routes, { faults, jwt: true, providers: context.authProviders ?? [], off: builtInGroups })
  checkNames(declared, context.tools ?? new Set(), faults)
  for (const { pointer, value: { path } } of routes) checkPath(path, `${pointer}/path`, faults)
  if (yielder.shouldYield()) await yielder.yield()
  const secretUses = new SecretUses()
  const connectors = document === undefined ? unknownConnectors : connectorsOf(document, context, faults, secretUses)
  const compileContext = { ...routeContextOf(document ?? {}, context), connectors, faults, secretUses }
  if (yielder.shouldYield()) await yielder.yield()
  const workflowSet = await compileWorkflows(workflows, compileContext, yielder)
  const routeContext = { ...compileContext, workflows: workflowSet }
  for (const { pointer, value } of routes) {
    compileRoute(value, pointer, routeContext)
    if (yielder.shouldYield()) await yielder.yield()
  }
  if (document !== undefined) {
    checkWebhooks(document.webhooks, { ...routeContext, sources: tenantWebhookSources }, {
      origin: 'tenant',
      sent: context.sendsWebhooks !== false
    })
  }
  if (document?.cors !== undefined) {
    checkOrigins(document.cors, faults)
    if (context.hasCors === false) faults.add('/cors', 'has no effect: the platform must have a section `cors`')
  }
  if (document?.rateLimit !== undefined) await checkEndpoints(document.rateLimit, routes, faults, yielder)
  faults.throwIfAny()
  if (yielder.shouldYield()) await yielder.yield()
  if (document === undefined) throw new Error('a section of the document is missing without a fault')

  await refuseConflicts(routes, context.taken, yielder)
  yielder.done()
  return {
    document,
    secrets: Object.freeze(secretUses.named),
    secretParts: Object.freeze(secretParts(document, secretUses, context.secretSettings ?? []))
  }
}

async function compileWorkflows (workflows: readonly Entry<Workflow>[], context: WorkflowContext, yielder: Yielder): Promise<WorkflowSet> {
  checkWorkflows(workflows, context.faults, 'tenant')
  const set = createWorkflowSet(workflows, context)
  for (const id of set.ids) {
    set.get(id)
    if (yielder.shouldYield()) await yielder.yield()
  }
  return set
}

/** The valid items; a fault in one item does not exclude the others. */
async function readEach<Schema extends TSchema & SchemaNode> (
  written: unknown,
  of: string,
  schema: Schema,
  reading: Reading,
  yielder: Yielder
): Promise<Entry<Static<Schema>>[]> {
  if (!Array.isArray(written)) return []
  const items: Entry<Static<Schema>>[] = []
  // `entries` would also visit the holes of a sparse array.
  for (let index = 0; index < written.length; index++) {
    const pointer = pointerTo(of, index)
    const value = readAs(schema, toPlain(written[index], reading.faults, pointer), pointer, reading)
    if (value !== undefined) items.push({ name: String(index), pointer, value: deepFreeze(value) })
    if (yielder.shouldYield()) await yielder.yield()
  }
  return items
}

/** Rejects path syntax that is allowed only in the platform's own paths. */
function checkPath (path: string, pointer: string, faults: FaultList): void {
  if (path.includes(';')) faults.add(pointer, 'a path cannot contain ";", since some proxies cut it there')
  const segments = path.split('/').slice(1)
  const parameters = segments.filter((segment) => segment.startsWith(':'))
  if (segments.length > maxSegments) faults.add(pointer, `a path can have at most ${maxSegments} segments, but this one has ${segments.length}`)
  if (parameters.length > maxParameters) {
    faults.add(pointer, `a path can have at most ${maxParameters} parameters, but this one has ${parameters.length}`)
  }
}

/** A platform tool would receive the calls of a tenant's tool with the same name. */
function checkNames (routes: readonly Entry<Route>[], taken: ReadonlySet<string>, faults: FaultList): void {
  for (const { pointer, value } of routes) {
    const name = toolOf(value)?.name
    if (name !== undefined && taken.has(name)) faults.add(`${pointer}/mcp`, `the server already has a tool "${name}": choose another \`name\``)
  }
}

/** Each rule of an endpoint must name an endpoint of the document. */
async function checkEndpoints (
  { perEndpoint = {} }: TenantRateLimit,
  routes: readonly Entry<Route>[],
  faults: FaultList,
  yielder: Yielder
): Promise<void> {
  const names = limitedNames(routes)
  let wrong = 0
  for (const key of Object.keys(perEndpoint)) {
    const fault = names.get(key)
    if (fault === null) continue
    const at = pointerTo('/rateLimit/perEndpoint', key)
    if (fault !== undefined) faults.add(at, fault)
    else faults.add(at, 'is not a route of this document', wrong++ < maxSuggestions ? nearest(key, names.keys()) : undefined)
    if (yielder.shouldYield()) await yielder.yield()
  }
}

async function refuseConflicts (routes: readonly Entry<Route>[], taken: readonly TakenRoute[], yielder: Yielder): Promise<void> {
  const details: { path: string, message: string, keyword: string }[] = []
  for (const { pointer, value: route } of routes) {
    const owner = conflictOf(route, taken)
    if (owner !== null) {
      details.push(
        { path: `${pointer}/path`, message: `${methodOf(route)} ${route.path}: the path is used by ${owner}`, keyword: 'conflict' }
      )
    }
    if (yielder.shouldYield()) await yielder.yield()
  }
  const [first] = details
  if (first === undefined) return
  const count = details.length === 1 ? '' : ` (${details.length} conflicts: see \`details\`)`
  throw failure('routeConflict', { message: first.message + count, extras: { details: details.slice(0, maxFaults) } })
}

type Router = ReturnType<typeof findMyWay>

/** Stands for any value of a parameter; no real path contains it. */
const anything = '\u{10FFFD}'

const routers = new WeakMap<readonly TakenRoute[], { readonly router: Router, readonly size: number }>()

/**
 * Finds the server's route that would match every request of the tenant's route: a route with the same path, or with a parameter
 * or wildcard that covers it, ignoring case. The paths of built-in endpoints are reserved for every method, even if this server
 * disables them. Returns a description of the route.
 */
function conflictOf (route: Route, taken: readonly TakenRoute[]): string | null {
  const segments = parsePath(route.path)
  if (typeof segments === 'string') return null
  const reserved = reservedBy(
    segments.map((segment) => segment.kind === 'text' ? { ...segment, text: segment.text.toLowerCase() } : segment)
  )
  if (reserved !== undefined) return `the built-in endpoint ${reserved.path}`
  const path = `/${segments.map(({ kind, text }) => kind === 'text' ? text : anything).join('/')}`
  const found = routerOf(taken).find(methodOf(route), path)
  const own: unknown = found?.store
  return typeof own === 'string' ? `the server's own route ${own}` : null
}

/** Uses find-my-way, Fastify's router, to match paths. If routes were added to the list, a new router is built. */
function routerOf (taken: readonly TakenRoute[]): Router {
  const known = routers.get(taken)
  if (known?.size === taken.length) return known.router
  const router = findMyWay({ caseSensitive: false, allowUnsafeRegex: true, maxParamLength })
  for (const { method, path } of taken) {
    // The same path may be registered for several hosts or versions, and in upper and lower case.
    if (isMethod(method) && router.findRoute(method, path) === null) router.on(method, path, () => {}, `${method} ${path}`)
  }
  routers.set(taken, { router, size: taken.length })
  return router
}
