/** The outbound webhooks of tenants' documents, for the plugin webhooks. */
import type { FastifyBaseLogger } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { compileOutboundWebhook, tenantWebhookSources } from '../../lib/connectors/outbound-webhook.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { readAs } from '../../lib/document/reader.js'
import type { TemplateContext } from '../../lib/expressions/reference.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { FaultList, formatFault, pointerTo } from '../../lib/schema/faults.js'
import { Webhooks } from '../../lib/schema/webhook.js'
import { readingOf } from '../../lib/tenant-document/read.js'
import type { VersionedWebhooks } from '../webhooks/webhooks.js'

/** Reads the webhooks of the document in force; none, and an entry in the log, if they are not valid on this server. */
export async function webhooksOf (
  tenant: Owner,
  db: Kysely<SystemTables>,
  { env, envNames, log }: Pick<TemplateContext, 'env' | 'envNames'> & { readonly log: FastifyBaseLogger }
): Promise<VersionedWebhooks> {
  const saved = await db.selectFrom('tenantry.tenant_configs').select(['version', sql<unknown>`document->'webhooks'`.as('webhooks')])
    .where('tenant_id', '=', tenant).orderBy('version', 'desc').limit(1).executeTakeFirst()
  if (saved === undefined) return { version: 0, webhooks: [] }
  const faults = new FaultList()
  const context = { faults, env, envNames, sources: tenantWebhookSources }
  const declared = readAs(Webhooks, saved.webhooks ?? [], '/webhooks', readingOf(faults)) ?? []
  const compiled = declared.flatMap((webhook, index) =>
    'url' in webhook ? [compileOutboundWebhook(webhook, pointerTo('/webhooks', index), context, 'tenant')] : []
  )
  if (faults.faults.length === 0) return { version: saved.version, webhooks: compiled }
  // Causes: another version of the server saved the document, or a setting was removed.
  log.error(
    { tenant, version: saved.version, faults: faults.faults.map(formatFault) },
    'the webhooks of a saved document are not valid on this server, so none of them is sent: restore the missing setting, or save the document again'
  )
  return { version: saved.version, webhooks: [] }
}
