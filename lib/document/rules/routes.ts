/** Checks of routes, webhooks and workflows beyond their schemas. */
import { compileOutboundWebhook } from '../../connectors/outbound-webhook.js'
import type { TemplateContext } from '../../expressions/reference.js'
import type { SecretUses } from '../../expressions/secret-uses.js'
import { type FaultList, nearest } from '../../schema/faults.js'
import { Plugins } from '../../schema/plugins.js'
import type { Route } from '../../schema/route.js'
import type { Webhook } from '../../schema/webhook.js'
import type { Schedule, Workflow } from '../../schema/workflow.js'
import { leastMinutes, leastTenantMinutes, parseSchedule } from '../../time/schedule.js'
import { isTurnedOff, parsePath, reservedBy, type Segment, shapeOf } from '../reserved.js'
import type { Entry } from '../sections.js'
import { checkTools } from './tools.js'

export interface RoutesContext {
  readonly faults: FaultList
  /** The document has keys for tokens. */
  readonly jwt: boolean
  /** The names of the identity providers. Default: unknown, those of the app. */
  readonly providers?: readonly string[]
  /** Names of the groups that the document turns off: their paths are free. */
  readonly off: ReadonlySet<string>
}

export function checkRoutes (routes: readonly Entry<Route>[], context: RoutesContext): void {
  const seen = new Map<string, string>()
  for (const { pointer, value: route } of routes) {
    checkPath(route, pointer, seen, context)
    checkWork(route, pointer, context.faults)
    checkSoftDelete(route, pointer, context.faults)
    checkAccess(route, pointer, context)
  }
  checkTools(routes, context.faults)
}

/** `off` are the groups that the document itself turns off. */
export function checkLimits (routes: readonly Entry<Route>[], off: ReadonlySet<string>, faults: FaultList): void {
  if (!off.has('resource-limits')) return
  for (const { pointer, value: { resourceLimit } } of routes) {
    if (resourceLimit !== undefined) {
      faults.add(`${pointer}/resourceLimit`, 'the document disables limits: remove `"resource-limits": false` from its `plugins`')
    }
  }
}

function checkPath (route: Route, pointer: string, seen: Map<string, string>, { faults, off }: RoutesContext): void {
  const at = `${pointer}/path`
  const segments = parsePath(route.path)
  if (typeof segments === 'string') {
    faults.add(at, segments)
    return
  }
  checkReserved(segments, at, faults, off)
  const key = `${route.method.toUpperCase()} ${shapeOf(segments)}`
  const first = seen.get(key)
  if (first === undefined) seen.set(key, pointer)
  else {
    faults.add(
      pointer,
      `the route ${route.method.toUpperCase()} ${route.path} is already declared at ${first}; routes must differ in more than the names of parameters`
    )
  }
}

function checkReserved (segments: readonly Segment[], at: string, faults: FaultList, off: ReadonlySet<string>): void {
  const reserved = reservedBy(segments)
  if (reserved === undefined || isTurnedOff(reserved, off)) return
  const { path, plugins } = reserved
  const ways = plugins.filter((plugin) => Object.hasOwn(Plugins.properties, plugin)).map((plugin) => `\`plugins: { "${plugin}": false }\``)
  const how = ways.length === 0 ? '' : `, or disable those endpoints: ${ways.join(' or ')}`
  faults.add(at, `the path is used by the built-in endpoint ${path}: choose another path${how}`)
}

function checkWork (route: Route, pointer: string, faults: FaultList): void {
  if (
    route.queries === undefined && route.firebaseQueries === undefined && route.integrations === undefined &&
    route.workflow === undefined && route.realtime === undefined && route.response === undefined
  ) {
    faults.add(
      pointer,
      'the route does nothing: expected `queries`, `firebaseQueries`, `integrations`, `workflow`, `realtime` or `response`'
    )
  }
  for (const [index, query] of (route.queries ?? []).entries()) {
    if (query.operation !== 'call' && isBlank(query.table)) {
      faults.add(`${pointer}/queries/${index}/table`, 'missing: expected the table of the query')
    }
  }
  for (const [index, query] of (route.firebaseQueries ?? []).entries()) {
    if (isBlank(query.collection)) {
      faults.add(`${pointer}/firebaseQueries/${index}/collection`, 'missing: expected the collection of the query')
    }
  }
}

function checkSoftDelete ({ softDelete, queries = [] }: Route, pointer: string, faults: FaultList): void {
  if (softDelete === undefined) return
  if (!queries.some(({ operation }) => operation === 'delete')) {
    faults.add(`${pointer}/softDelete`, 'no query of the route deletes rows of a table, so this has no effect')
  } else if (!softDelete.enabled && softDelete.allowHardDelete === true) {
    // `?hard=false` would remove the row as well.
    faults.add(`${pointer}/softDelete/allowHardDelete`, 'without soft deletes every delete removes the row: remove this, or set `enabled`')
  }
}

function isBlank (name: string | undefined): boolean {
  return name === undefined || name.trim() === ''
}

function checkAccess (route: Route, pointer: string, { faults, jwt, providers }: RoutesContext): void {
  const permissions = (route.requiredPermissions?.length ?? 0) > 0
  const { authProvider = 'jwt' } = route
  if (authProvider !== 'jwt' && providers !== undefined && !providers.includes(authProvider)) {
    faults.add(
      `${pointer}/authProvider`,
      `no identity provider of that name: expected "jwt"${providers.length === 0 ? '' : ` or one of \`authProviders\`, ${providers.join(', ')}`}`,
      nearest(authProvider, providers)
    )
  }
  if (permissions && route.requireAuth === false) {
    faults.add(
      `${pointer}/requireAuth`,
      'the route has `requiredPermissions`, which require a token: remove `requireAuth`, or set it to true'
    )
  }
  // Limits belong to users, so the route needs a token.
  if (route.resourceLimit !== undefined && !(route.requireAuth ?? permissions)) {
    faults.add(`${pointer}/resourceLimit`, 'limits require a caller with a token: set `requireAuth`')
  }
  if (jwt || authProvider !== 'jwt') return
  for (const [member, asks] of [['requireAuth', route.requireAuth === true], ['requiredPermissions', permissions]] as const) {
    if (asks) {
      faults.add(
        `${pointer}/${member}`,
        'tokens cannot be verified: the document needs a section `jwt`, or the environment the setting JWT_SECRET'
      )
    }
  }
}

/** Names appear in the log of deliveries. `sent`: the plugin that sends is on. */
export function checkWebhooks (
  webhooks: readonly Webhook[],
  context: TemplateContext & { readonly secretUses?: SecretUses | undefined },
  { origin, sent }: { origin: 'platform' | 'tenant', sent: boolean }
): void {
  const known = new Map<string, string>()
  for (const [index, webhook] of webhooks.entries()) {
    const pointer = `/webhooks/${index}`
    const before = known.get(webhook.name)
    if (before === undefined) known.set(webhook.name, pointer)
    else context.faults.add(`${pointer}/name`, `the webhook ${before} already has this name`)
    if (!('url' in webhook)) {
      const { actions, workflow } = webhook
      if (actions === undefined && workflow === undefined) {
        context.faults.add(pointer, 'the webhook has no effect: expected `actions` or `workflow`')
      }
      continue
    }
    compileOutboundWebhook(webhook, pointer, { ...context, uses: context.secretUses?.of(pointer) }, origin)
    if (!sent) context.faults.add(pointer, 'this server does not send webhooks')
  }
}

const maxSchedules = { platform: 100, tenant: 20 } // of one document

/** Workflows have distinct ids, and schedules have times. */
export function checkWorkflows (
  workflows: readonly Entry<Workflow>[],
  faults: FaultList,
  origin: keyof typeof maxSchedules = 'platform'
): void {
  const seen = new Map<string, string>()
  let schedules = 0
  for (const { pointer, value: { id, schedule } } of workflows) {
    const first = seen.get(id)
    if (first === undefined) seen.set(id, pointer)
    else faults.add(`${pointer}/id`, `the workflow at ${first} already has the id "${id}"`)
    if (schedule === undefined) continue
    schedules++
    if (schedules === maxSchedules[origin] + 1) {
      faults.add(`${pointer}/schedule`, `a document can have at most ${maxSchedules[origin]} workflows with a schedule`)
    } else if (schedules <= maxSchedules[origin]) checkSchedule(schedule, `${pointer}/schedule`, origin, faults)
  }
}

function checkSchedule (schedule: Schedule, pointer: string, origin: keyof typeof maxSchedules, faults: FaultList): void {
  const read = parseSchedule(schedule)
  if ('reason' in read) return faults.add(`${pointer}/${read.at}`, read.reason)
  const least = leastMinutes(schedule.cron)
  if (origin === 'tenant' && least < leastTenantMinutes) {
    faults.add(`${pointer}/cron`, `runs of a tenant must be at least ${leastTenantMinutes} minutes apart, but these are ${least}`)
  }
}
