/** `app.tenantDocuments` of the plugin tenant-config: the declarations in tenants' documents, for other plugins. */

declare module 'fastify' {
  interface FastifyInstance {
    tenantDocuments: TenantDocuments
  }
}

/** Each plugin that reads tenants' documents declares its own member. */
export interface TenantDocuments {}
