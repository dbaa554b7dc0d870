/**
 * Checks of webhooks beyond their schema: names, addresses and templates of outbound ones, actions of inbound ones. Their routes are
 * checked as routes.
 */
import type { FaultList } from '../../schema/faults.js'
import type { TemplateContext } from '../../expressions/reference.js'
import type { SecretUses } from '../../expressions/secret-uses.js'
import type { InboundWebhook, Webhook } from '../../schema/webhook.js'
import { compileOutboundWebhook } from '../../connectors/outbound-webhook.js'

/** Names appear in the log of deliveries. `sent`: the plugin that sends is on. */
export function checkWebhooks (
  webhooks: readonly Webhook[],
  context: TemplateContext & { readonly secretUses?: SecretUses | undefined },
  { origin, sent }: { origin: 'platform' | 'tenant', sent: boolean }
): void {
  const known = new Map<string, string>()
  for (const [index, webhook] of webhooks.entries()) {
    const pointer = `/webhooks/${index}`
    refuseSameName(webhook.name, pointer, known, context.faults)
    if (!('url' in webhook)) {
      checkInbound(webhook, pointer, context.faults)
      continue
    }
    compileOutboundWebhook(webhook, pointer, { ...context, uses: context.secretUses?.of(pointer) }, origin)
    if (!sent) context.faults.add(pointer, 'this server does not send webhooks')
  }
}

function refuseSameName (name: string, pointer: string, known: Map<string, string>, faults: FaultList): void {
  const before = known.get(name)
  if (before === undefined) known.set(name, pointer)
  else faults.add(`${pointer}/name`, `the webhook ${before} already has this name`)
}

function checkInbound ({ actions, workflow }: InboundWebhook, pointer: string, faults: FaultList): void {
  if (actions === undefined && workflow === undefined) faults.add(pointer, 'the webhook has no effect: expected `actions` or `workflow`')
}
