/** Compiles the webhook of a route: its signature scheme and its secret. */
import { secretKeysOf, type TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, TemplateSource } from '../expressions/types.js'
import type { FaultList } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import type { RouteWebhook, SignatureMembers } from '../schema/webhook.js'
import { custom, type Scheme, schemes, type WebhookProvider } from '../webhooks/schemes.js'
import { methodOf } from './route-parts.js'

export interface CompiledWebhook {
  /** As declared. */
  readonly path: string
  readonly provider: WebhookProvider
  readonly scheme: Scheme
  readonly secret: CompiledValue
  /** The tenant's secret that `secret` refers to; null if it refers to none. */
  readonly key: string | null
  /** The sender gets an acknowledgement instead of the result. */
  readonly acknowledges: boolean
}

const sources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['env', 'secret'])

/** null if the route is not a webhook, or its scheme is invalid. */
export function compileWebhook (
  { path, webhook }: Pick<Route, 'path' | 'webhook'>,
  pointer: string,
  context: TemplateContext
): CompiledWebhook | null {
  if (webhook === undefined) return null
  const at = `${pointer}/webhook`
  const scheme = schemeOf(webhook, at, context.faults)
  const secret = compileValue(webhook.secret, `${at}/secret`, { ...context, sources })
  const keys = secretKeysOf(secret.references)
  if (keys.length > 1) context.faults.add(`${at}/secret`, 'expected at most one secret: during a rotation, each of its values can sign')
  if (scheme === null) return null
  const { provider, acknowledges }: SignatureMembers = webhook
  return Object.freeze({ path, provider, scheme, secret, key: keys[0] ?? null, acknowledges: acknowledges === true })
}

/** Adds a fault for each part of the route that needs a token, because webhook requests have none. */
export function checkWebhookRules (route: Route, pointer: string, faults: FaultList): void {
  if (route.webhook === undefined) return
  if (methodOf(route) !== 'POST') faults.add(`${pointer}/method`, 'other services send webhooks with `post`')
  const unsigned = ['requireAuth', 'requiredPermissions', 'authProvider', 'resourceLimit'] as const
  for (const member of unsigned) {
    const value = route[member]
    if (value === undefined || value === false || value === 'jwt' || (Array.isArray(value) && value.length === 0)) continue
    faults.add(`${pointer}/${member}`, 'a webhook is called with a signature, not with a token: remove this')
  }
}

function schemeOf ({ provider, header, algorithm, encoding }: RouteWebhook, pointer: string, faults: FaultList): Scheme | null {
  if (provider !== 'custom') {
    for (const [member, value] of Object.entries({ header, algorithm, encoding })) {
      if (value !== undefined) faults.add(`${pointer}/${member}`, `only for \`custom\`: ${provider} has a fixed signature`)
    }
    return schemes[provider]
  }
  if (header !== undefined) return custom({ header, algorithm, encoding })
  faults.add(`${pointer}/header`, 'missing: expected the header of the signature')
  return null
}
