/** Outbound webhooks: `app.webhooks` and the log of deliveries. On PostgreSQL without a master key it is off. */
import type { FastifyInstance } from 'fastify'
import type { Env } from '../../lib/configuration/index.js'
import { compileOutboundWebhook, platformWebhookSources } from '../../lib/connectors/outbound-webhook.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { listen, runWhenReady, sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, flag, record, section, text, whole } from '../../lib/plugin/options.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { outboundOf, type Webhook, Webhooks } from '../../lib/schema/webhook.js'
import type { KeyOptions } from '../../lib/secrets/master-key.js'
import { createNotifier } from '../queue/notifier.js'
import { createDispatcher, type Dispatcher } from './dispatcher.js'
import { openCipher } from './keys.js'
import { sweepDeliveries } from './retention.js'
import { webhookRoutes } from './routes.js'
import { createSigningSecrets, type SigningSecrets } from './secret.js'
import { createSend } from './send.js'
import { createWebhooks } from './service.js'
import { createSubscriberDirectory, type SubscriberDirectory } from './subscribers.js'

export type { Callback, TenantWebhooks, VersionedWebhooks, Webhooks } from './webhooks.js'

/** The settings of the master keys, as for the plugin secrets, and the document's `webhooks` section. */
export interface WebhooksOptions extends Omit<KeyOptions, 'folder'>, ClockOption {
  /** The document's webhooks; inbound ones are ignored. Default: none. */
  readonly webhooks?: readonly Webhook[] | undefined
  /** The values of `{{env.NAME}}`. Default: the process's environment. */
  readonly env?: Env | undefined
  /** Whether this process sends. Other processes on the database may. Default: true. */
  readonly deliver?: boolean | undefined
  /** Milliseconds for the whole response of a receiver, 1 to 20,000. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  /**
   * Milliseconds for running attempts when the server stops; then other processes take them. Default: 8000, so that a stop takes
   * at most 10 s.
   */
  readonly stopTimeoutMs?: number | undefined
}

export default definePlugin<WebhooksOptions>({
  name: 'webhooks',
  dependencies: ['database', 'outbound'],
  optional: ['secrets', 'tenant-config'],
  routeDependencies: ['auth', 'tenancy'],
  options: {
    webhooks: section(Webhooks),
    env: record,
    deliver: flag,
    timeoutMs: whole(1, 20_000),
    stopTimeoutMs: whole(0, 600_000),
    masterKey: text,
    previousKeys: text,
    now: callback
  },
  async setup (app, options) {
    const {
      webhooks: declared = [],
      env = process.env,
      deliver = true,
      timeoutMs = 10_000,
      stopTimeoutMs = 8000,
      now = Date.now,
      ...settings
    } = options
    const { engine, db, events, log } = app
    const sent = outboundOf(declared)
    const cipher = await openCipher(app, settings, sent.length > 0)
    if (cipher === null) return undefined
    const platform = withoutFaults((faults) =>
      sent.map((webhook, index) =>
        compileOutboundWebhook(webhook, `/webhooks/${index}`, { faults, env, sources: platformWebhookSources }, 'platform')
      )
    )
    const documents = optional(app, 'tenantDocuments')
    const subscribers = createSubscriberDirectory({ platform, tenants: () => documents()?.webhooks ?? null, db })
    const secrets = createSigningSecrets({ db, cipher, now })
    forgetOnChange(app, subscribers, secrets)
    const dispatcher = deliver
      ? createDispatcher({ db, subscribers, send: createSend({ app, subscribers, secrets, cipher, now, timeoutMs }), log, now })
      : null
    // Wakes the processes that deliver.
    const notifier = createNotifier(
      () => events.change({ topic: 'webhooks', tenant: platformRef }, async () => {}),
      (err) => log.debug({ err }, 'other processes could not be notified of new events: they find them at their next poll')
    )
    const service = createWebhooks({
      dbFor: (tenant) => engine.kyselyFor(tenant),
      subscribers,
      secrets,
      cipher,
      now,
      wake: dispatcher?.wake ?? notifier.notify
    })
    app.decorate('webhooks', service)

    sweepHourly(app, 'old deliveries of webhooks', () => sweepDeliveries(db, new Date(now())))
    if (dispatcher !== null) startDispatcher(app, dispatcher, stopTimeoutMs)
    app.addHook('onClose', () => notifier.close())
    return webhookRoutes
  }
})

function forgetOnChange (app: FastifyInstance, subscribers: SubscriberDirectory, secrets: SigningSecrets): void {
  listen(app, app.events, {
    config: subscribers.forget,
    tenant (tenant) {
      subscribers.forget(tenant)
      secrets.forget(tenant)
    },
    gap () {
      subscribers.clear()
      secrets.clear()
    }
  })
}

/** Wakes it when there may be deliveries, starts it when the app is ready, and stops it with the app. */
function startDispatcher (app: FastifyInstance, dispatcher: Dispatcher, stopTimeoutMs: number): void {
  listen(app, app.events, { webhooks: dispatcher.wake, config: dispatcher.wake, gap: dispatcher.wake })
  // Its sends may need parts that later plugins add before the app is ready.
  runWhenReady(app, () => {
    dispatcher.start()
    return () => dispatcher.stop(performance.now() + stopTimeoutMs)
  })
}
