/** The first lines of `tenantry dev`: the address, tokens and a first call. */
import type { FastifyInstance } from 'fastify'
import type { Config } from '../../lib/configuration/index.js'

const tenant = 'acme'
const tokenSeconds = 12 * 3600

/** A few lines; the first is `listening on http://...`. */
export function introduction (app: FastifyInstance, config: Config, address: string): string[] {
  const { openapi } = config.plugins
  const pages = openapi === false || openapi?.ui === false ? [] : [`documentation: ${address}/ui`]
  return [`listening on ${address}`, ...pages, ...tokensOf(app, config), ...firstCall(config, address)]
}

/** No tokens if the server only accepts tokens of other issuers. */
function tokensOf (app: FastifyInstance, { jwt, tenancy }: Config): string[] {
  if (jwt === undefined || !app.auth.canSign) return []
  const expiresIn = Math.min(tokenSeconds, jwt.maxLifetime ?? tokenSeconds)
  const token = (claims: { readonly tenant_id?: string }) => {
    return app.auth.sign({ sub: 'dev', role: 'admin', ...claims }, { expiresIn })
  }
  // A tenant that does not exist yet has no users.
  const ofTenant = tenancy.provisioning === 'explicit' ? [] : [`  export TOKEN=${token({ tenant_id: tenant })}`]
  const first = ofTenant.length === 0 ? '' : `TOKEN of an administrator of the tenant "${tenant}", `
  return [
    `tokens: ${first}PLATFORM_TOKEN of the platform's administrator`,
    ...ofTenant,
    `  export PLATFORM_TOKEN=${token({})}`
  ]
}

/** A call of the first list that only needs a token. */
function firstCall ({ routes, tenancy, jwt }: Config, address: string): string[] {
  const route = routes.find(({ method, path, request }) => {
    const needsQuery = Object.values(request?.query ?? {}).some(({ required }) => required === true)
    return method.toLowerCase() === 'get' && !/[:*]/.test(path) && !needsQuery
  })
  if (route === undefined) return []
  if (jwt === undefined) return [`try: curl ${address}${route.path}`]
  return tenancy.provisioning === 'explicit' ? [] : [`try: curl -H "Authorization: Bearer $TOKEN" ${address}${route.path}`]
}
