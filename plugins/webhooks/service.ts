/** `app.webhooks`: outbound webhooks. */
import { tenantRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { SecretCipher } from '../../lib/secrets/cipher.js'
import { randomUUID } from 'node:crypto'
import { deprecate } from 'node:util'
import { writeAudit } from '../../lib/database/audit.js'
import { withoutQuery } from '../../lib/connectors/outbound-webhook.js'
import { failure } from '../../lib/errors.js'
import { writeEvent } from '../../lib/database/outbox.js'
import { callbackPlace } from '../../lib/secrets/associated-data.js'
import { whenKnown } from '../../lib/concurrency/when-known.js'
import { writeCallback } from './callback.js'
import type { SubscriberDirectory } from './subscribers.js'
import { retryForMs } from './retry.js'
import type { SigningSecrets } from './secret.js'
import { listDeliveries, redeliver } from './store.js'
import type { Webhooks } from './webhooks.js'

export interface WebhooksParts {
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly subscribers: SubscriberDirectory
  readonly secrets: SigningSecrets
  readonly cipher: SecretCipher
  readonly now: () => number
  readonly wake: () => void
}

export function createWebhooks ({ dbFor, subscribers, secrets, cipher, now, wake }: WebhooksParts): Webhooks {
  const { platform } = subscribers

  function hasSubscribers (tenant: Owner): boolean | Promise<boolean> {
    if (platform.entities) return true
    return whenKnown(subscribers.of(tenant), ({ entities }) => entities)
  }

  return {
    async emit (transaction, event) {
      if (!platform.kinds.has(event.type) && !(await subscribers.within(transaction, tenantRef(event.tenant))).kinds.has(event.type)) return
      await writeEvent(transaction, event)
    },

    hasSubscribers,
    hears: deprecate(hasSubscribers, '`app.webhooks.hears` is now `hasSubscribers`', 'TENANTRY_DEP_HEARS'),

    async callback (transaction, { tenant, url, secret, trusted, ...event }) {
      const id = randomUUID()
      const time = now()
      await writeCallback(transaction, {
        id,
        event: { tenant, ...event },
        url: withoutQuery(url),
        sealed: cipher.encrypt(callbackPlace(tenant, id), JSON.stringify({ url, secret, trusted })),
        now: new Date(time),
        giveUpAt: new Date(time + retryForMs)
      })
    },

    secretOf: (tenant: Owner) => secrets.of(tenant),
    deliveries: (tenant: Owner, filter, page) => listDeliveries(dbFor(tenant), tenant, filter, page),

    async redeliver (tenant: Owner, id, actor) {
      const at = new Date(now())
      await dbFor(tenant).transaction().execute(async (transaction) => {
        if (!await redeliver(transaction, tenant, id, at, new Date(at.getTime() + retryForMs))) {
          throw failure('notFound', { message: 'There is no such delivery' })
        }
        await writeAudit(transaction, { tenant, action: 'webhook.redeliver', actor, target: id, at })
      })
      wake()
    },

    wake
  }
}
