/** Inbound webhooks of a document as routes, which pass the same checks. */
import { type Fault, FaultList, pointerTo } from '../schema/faults.js'
import type { Route } from '../schema/route.js'
import type { InboundWebhook, SignatureMembers, Webhook } from '../schema/webhook.js'
import type { Entry } from './sections.js'

/** The routes of inbound webhooks, in their order, with their places in the document. */
export function webhookRoutes (webhooks: readonly Webhook[]): Entry<Route>[] {
  return webhooks.flatMap((webhook, index) =>
    'url' in webhook ? [] : [{ name: webhook.name, pointer: pointerTo('/webhooks', index), value: routeOf(webhook) }]
  )
}

/** A list for the faults of a route that translates places: a webhook has its members elsewhere. */
export function faultsOfRoute (pointer: string, faults: FaultList): FaultList {
  return pointer.startsWith('/webhooks/') ? new WebhookFaults(faults) : faults
}

function routeOf ({ name, path, actions, workflow, provider, secret, header, algorithm, encoding }: InboundWebhook): Route {
  const webhook: SignatureMembers = { provider, secret, header, algorithm, encoding, acknowledges: true }
  return {
    path,
    method: 'post',
    description: `Receives the webhook ${name}.`,
    webhook,
    integrations: actions,
    workflow,
    // An asynchronous workflow always has this response.
    ...workflow?.async !== true && { response: { received: true } }
  }
}

class WebhookFaults extends FaultList {
  constructor (private readonly target: FaultList) {
    super()
  }

  override take (faults: readonly Fault[]): void {
    const placed = faults.map((fault) => ({ ...fault, pointer: placeOf(fault.pointer) }))
    super.take(placed)
    this.target.take(placed)
  }
}

/** The place in the document of a part of a webhook's route. */
export function placeOf (pointer: string): string {
  return pointer
    .replace(/^(\/webhooks\/\d+)\/webhook(?=\/|$)/, '$1')
    .replace(/^(\/webhooks\/\d+)\/integrations(?=\/|$)/, '$1/actions')
}
