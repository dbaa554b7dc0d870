/** Compiles a saved document into the routes that serve it. */
import type { FastifyBaseLogger } from 'fastify'
import { oncePerObject } from '../../lib/cache/weak-memo.js'
import { candidatesFor, rowPathsOf } from '../../lib/compiler/location.js'
import { compileRoute } from '../../lib/compiler/route.js'
import type { RouteContext } from '../../lib/compiler/route-context.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { ConfigError } from '../../lib/configuration/index.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { webhookRoutes } from '../../lib/document/webhook-routes.js'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { FaultList, pointerTo } from '../../lib/schema/faults.js'
import type { Route } from '../../lib/schema/route.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import { readTenantDocument, type TenantDocument } from '../../lib/tenant-document/index.js'
import { everyStep } from '../../lib/workflows/flow.js'
import { createWorkflowSet, storedIn, workflowsOf } from '../../lib/workflows/index.js'
import { createSharedRoutes } from './shared-routes.js'
import type { ConfigStore, SavedDocument } from './store.js'
import { createTenantRoutes, type TenantRoutes } from './tenant-routes.js'

// The measured memory of compiled routes; a tenant with ten usual routes weighs 1.
const unit = 262_144 // bytes
const bytesOfCharacter = 4 // bytes for each character of the document
const bytesOfPart = 6144 // bytes for each route, query, integration and workflow step

export interface LoadParts {
  readonly store: ConfigStore
  readonly catalogue: () => Catalogue
  /** The context for compiling the routes of a document. */
  readonly context: (
    document: Partial<Pick<TenantDocument, 'cache' | 'credentials' | 'customIntegrations'>>,
    tables: Catalogue
  ) => Omit<RouteContext, 'faults'>
  readonly log: FastifyBaseLogger
}

/** Loads the document in force. `before`: the routes that serve until then. */
export type LoadRoutes = (tenant: Owner, before: TenantRoutes | undefined) => Promise<TenantRoutes>

export function createLoad ({ store, catalogue, context, log }: LoadParts): LoadRoutes {
  const sharedBy = createSharedRoutes()

  async function make (tenant: Owner, { version, document, createdAt }: SavedDocument): Promise<TenantRoutes> {
    const { routes: declared, rateLimit, ...rest } = readTenantDocument(document)
    const routes = [...declared.map((value, index) => ({ value, pointer: pointerTo('/routes', index) })), ...webhookRoutes(rest.webhooks)]
    const shared = sharedBy({
      cache: rest.cache,
      workflows: rest.workflows,
      credentials: rest.credentials,
      customIntegrations: rest.customIntegrations
    })
    const rowPaths = rowPathsOf(declared)
    const contextOf = oncePerObject((tables: Catalogue) => {
      const compiled = { ...context(rest, tables), faults: new FaultList() }
      return { ...compiled, workflows: createWorkflowSet(workflowsOf(rest.workflows), storedIn(compiled)) }
    })
    // The faults were reported when the document was saved. New ones come from changed tables.
    const compile = (route: Route, tables: Catalogue) =>
      shared(
        route,
        tables,
        () => compileRoute(route, '', { ...storedIn(contextOf(tables)), rowPaths, faults: new FaultList() }),
        candidatesFor(route, rowPaths)
      )
    const generation = `v${version} ${createdAt.getTime()} `
    return {
      version,
      weight: weightOf(document, routes.map(({ value }) => value), rest.workflows),
      workflows: { workflows: rest.workflows, context: contextOf },
      ...await createTenantRoutes({ tenant, generation, routes, rateLimit, catalogue, compile })
    }
  }

  const empty = readTenantDocument({})

  /** For a tenant without a document. Workflows that such a tenant sends are compiled all the same. */
  function nothing (version: number): TenantRoutes {
    return {
      version,
      weight: 1,
      routes: [],
      find: () => null,
      methodsOf: () => new Set(),
      workflows: { workflows: [], context: oncePerObject((tables: Catalogue) => context(empty, tables)) }
    }
  }

  return async (tenant, before) => {
    const saved = await store.read(tenant)
    if (saved === undefined) return nothing(0)
    try {
      const routes = await make(tenant, saved)
      if (before !== undefined) await compileUsed(tenant, routes, before)
      return routes
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      // Another version of the server may have saved the document. Loaded routes keep serving.
      log.error(
        { err: error, tenant, version: saved.version },
        'the saved document of a tenant cannot be read by this version of the server'
      )
      return before ?? { ...nothing(saved.version), find: unreadable }
    }
  }
}

/** Compiles the routes that were in use, so that no request waits for it. */
async function compileUsed (tenant: Owner, routes: TenantRoutes, before: TenantRoutes): Promise<void> {
  const used = new Set(before.routes.filter((route) => route.used).map(({ id }) => id))
  const yielder = createYielder(tenant)
  for (const route of routes.routes) {
    if (yielder.shouldYield()) await yielder.yield()
    if (used.has(route.id)) route.compiled()
  }
  yielder.done()
}

function weightOf (document: unknown, routes: readonly Route[], workflows: readonly Workflow[]): number {
  let parts = routes.length
  for (const { steps = [] } of [...workflows, ...routes.flatMap(({ workflow }) => workflow ?? [])]) parts += [...everyStep(steps)].length
  for (const { queries = [], firebaseQueries = [], integrations = [] } of routes) {
    parts += queries.length + firebaseQueries.length + integrations.length
  }
  return 1 + Math.floor((stringifyJson(document).length * bytesOfCharacter + parts * bytesOfPart) / unit)
}

function unreadable (): never {
  throw failure('schemaChanged', {
    message: 'The saved configuration of the tenant cannot be read by this version of the server: save it again'
  })
}
