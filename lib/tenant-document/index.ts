/** The documents that tenants save: their schema, their check, and the context for compiling their routes. */
export { checkTenantDocument, type CheckedTenantDocument } from './check.js'
export { connectorsOf, routeContextOf, type TakenRoute, type TenantDocumentContext } from './context.js'
export { readTenantDocument } from './read.js'
export { keepsParts } from './secret-parts.js'
export type { TenantDocument } from './read.js'
