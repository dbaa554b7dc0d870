/** `app.tenantDocuments` without the plugin tenant-config. Tenants have no documents; the given members replace the defaults. */
import { unknownConnectors } from '../../lib/connectors/index.js'
import type { TenantDocuments } from '../../lib/tenant-document/tenant-documents.js'

export function tenantDocuments (members: Partial<TenantDocuments>): TenantDocuments {
  return {
    connectors: () => unknownConnectors,
    workflows () {
      throw new Error('this test has no tenant workflows')
    },
    tools: () => null,
    webhooks: async () => ({ version: 0, webhooks: [] }),
    documentation: () => null,
    protectSettings () {},
    ...members
  }
}
