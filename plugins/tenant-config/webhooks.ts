/** The outbound webhooks of tenants' documents, for the plugin webhooks. */
import type { FastifyBaseLogger } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { compileOutboundWebhook, tenantWebhookSources } from '../../lib/connectors/outbound-webhook.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { readAs } from '../../lib/document/reader.js'
import type { TemplateContext } from '../../lib/expressions/reference.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { FaultList } from '../../lib/schema/faults.js'
import { outboundOf, Webhooks } from '../../lib/schema/webhook.js'
import { readingOf } from '../../lib/tenant-document/read.js'
import type { VersionedWebhooks } from '../webhooks/webhooks.js'

/** Reads the webhooks of the document in force; none if this version cannot read the document. */
export async function webhooksOf (
  tenant: Owner,
  db: Kysely<SystemTables>,
  { env, envNames, log }: Pick<TemplateContext, 'env' | 'envNames'> & { readonly log: FastifyBaseLogger }
): Promise<VersionedWebhooks> {
  const saved = await db.selectFrom('tenantry.tenant_configs').select(['version', sql<unknown>`document->'webhooks'`.as('webhooks')])
    .where('tenant_id', '=', tenant).orderBy('version', 'desc').limit(1).executeTakeFirst()
  if (saved === undefined) return { version: 0, webhooks: [] }
  const faults = new FaultList()
  const compiled = outboundOf(readAs(Webhooks, saved.webhooks ?? [], '/webhooks', readingOf(faults)) ?? [])
    .map((webhook) => compileOutboundWebhook(webhook, '/webhooks', { faults, env, envNames, sources: tenantWebhookSources }, 'tenant'))
  if (faults.faults.length === 0) return { version: saved.version, webhooks: compiled }
  // Causes: another version of the server saved the document, or a setting was removed.
  log.error({ tenant, version: saved.version }, 'the webhooks of a saved document cannot be read by this version of the server: they are not sent')
  return { version: saved.version, webhooks: [] }
}
