/** `app.webhooks`: outbound webhooks. */
import { randomUUID } from 'node:crypto'
import { deprecate } from 'node:util'
import { type Kysely, sql } from 'kysely'
import { whenKnown } from '../../lib/cache/async-cache.js'
import { withoutQuery } from '../../lib/connectors/outbound-webhook.js'
import { writeAudit } from '../../lib/database/audit.js'
import { eventText, writeEvent } from '../../lib/database/outbox.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { failure } from '../../lib/errors.js'
import { type Owner, tenantRef } from '../../lib/identity/tenant-ref.js'
import { callbackPlace } from '../../lib/secrets/cipher.js'
import { chainOf } from './fan-out.js'
import { retryForMs } from './retry.js'
import type { SenderParts } from './send.js'
import { listDeliveries, redeliver } from './store.js'
import type { Webhooks } from './webhooks.js'

export interface WebhooksParts extends Pick<SenderParts, 'subscribers' | 'secrets' | 'cipher' | 'now'> {
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
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

    async callback (transaction, { tenant, url, shownUrl = url, secret, trusted, type, subject, data, at, depth = 0 }) {
      const id = randomUUID()
      const sealed = cipher.encrypt(callbackPlace(tenant, id), JSON.stringify({ url, secret, trusted }))
      const due = new Date(now())
      const giveUpAt = new Date(due.getTime() + retryForMs)
      // Nothing is written if the tenant does not exist or is being deleted. No other delivery waits for it: a subject has one callback.
      await sql`
        with live as (select id from tenantry.tenants where id = ${tenant} and status <> 'deleting' for key share),
        added as (
          insert into tenantry.webhook_events (tenant_id, type, subject, data, at, depth, fanned_out)
          select ${tenant}::text, ${type}::text, ${subject}::text, ${eventText(data)}::json, ${at}::timestamptz, ${depth}::smallint, true
          where ${tenant}::text = '' or exists (select from live)
          returning place
        )
        insert into tenantry.webhook_deliveries (id, tenant_id, event, type, subject, endpoint, url, sealed, next_attempt_at, give_up_at, created_at)
        select ${id}::uuid, ${tenant}, place, ${type}, ${chainOf(subject)}, '', ${withoutQuery(shownUrl)}, ${sealed},
          ${due}::timestamptz, ${giveUpAt}::timestamptz, ${due}::timestamptz from added`.execute(transaction)
    },

    secretOf: (tenant: Owner) => secrets.of(tenant),
    deliveries: (tenant: Owner, filter, page) => listDeliveries(dbFor(tenant), tenant, filter, page),

    async redeliver (tenant: Owner, id, actor) {
      const at = new Date(now())
      await dbFor(tenant).transaction().execute(async (transaction) => {
        if (!await redeliver(transaction, tenant, id, at, new Date(at.getTime() + retryForMs))) throw failure('notFound')
        await writeAudit(transaction, { tenant, action: 'webhook.redeliver', actor, target: id, at })
      })
      wake()
    },

    wake
  }
}
