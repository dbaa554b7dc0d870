/** `app.tenantDocuments`, which the plugin tenant-config adds: what documents of tenants declare, for other plugins. */

declare module 'fastify' {
  interface FastifyInstance {
    tenantDocuments: TenantDocuments
  }
}

/** Each plugin that reads documents of tenants declares its own member. */
export interface TenantDocuments {}
