/** The endpoints of tenants' documents, and their schemas. */
import { Type } from 'typebox'
import { IfMatchHeaders, ifMatchOf, notModified, withTag } from '../../lib/http/caching.js'
import { callerErrors } from '../../lib/http/error-schemas.js'
import { ListOf, pageQuery, readPage } from '../../lib/http/page.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { Time } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { callerOf, hasPermission } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { renew } from '../auth/renewal.js'
import { requiredTenant, tenantOf } from '../tenancy/required.js'
import { type ConfigService, tagOf } from './service.js'

const maxDocument = 1_048_576 // bytes

const Document = named(
  'TenantDocument',
  Type.Object({}, {
    additionalProperties: true,
    description: 'The configuration of the tenant: routes, credentials, rateLimit, cache, settings.'
  })
)

const SaveQuery = ClosedObject({
  dryRun: Optional.Boolean('Check the configuration without saving it. Default: false.')
})

const ReadQuery = ClosedObject({
  version: Optional.Integer('The number of an earlier version. Default: the active version.', { minimum: 1, maximum: 2_147_483_647 })
})

const Saved = Type.Object({
  success: Type.Boolean(),
  message: Type.String(),
  version: Type.Integer({ description: 'The version of the saved configuration; after a dry run, the active version.' }),
  secretsDetected: Type.Array(Type.String(), {
    description: 'The keys of the secrets that the configuration uses in templates and expressions.'
  })
})

const Page = ClosedObject(pageQuery('Versions', 1_000_000))

const Versions = ListOf(Type.Object({
  version: Type.Integer(),
  createdAt: Time(),
  createdBy: Type.String({ description: 'The `sub` of the user who saved the version.' })
}))

const tags = ['Tenant configuration']
const config = { access: 'tenant-admin', permission: 'config:write' } as const

export function tenantConfigRoutes (app: FastifyGroup, service: ConfigService): void {
  app.get('/tenant/config', {
    config,
    schema: {
      tags,
      summary: 'Retrieve the configuration of the tenant',
      querystring: ReadQuery,
      response: { 200: Document, 304: notModified, ...callerErrors() }
    }
  }, async (request, reply) => {
    const { version, document } = await service.read(tenantOf(request), request.query.version)
    const text = withTag(request, reply, tagOf(version), stringifyJson(document))
    return typeof text === 'string' ? sendText(reply, text) : text
  })

  app.post('/tenant/config', {
    config,
    bodyLimit: maxDocument,
    schema: {
      tags,
      summary: 'Save the configuration of the tenant',
      querystring: SaveQuery,
      headers: IfMatchHeaders,
      body: Document,
      response: { 200: Saved, ...callerErrors(409, 412, 413, 415) }
    }
  }, async (request, reply) => {
    const { dryRun = false } = request.query
    const { version, secretsDetected, secretsMissing } = await service.save({
      tenant: requiredTenant(request),
      document: request.body,
      claims: callerOf(request),
      actor: actorOf(request),
      match: ifMatchOf(request),
      dryRun,
      renew: () => renew(request, reply),
      usesSecrets: () => hasPermission(request, 'secrets:write')
    })
    if (!dryRun) reply.header('etag', tagOf(version))
    return { success: true, message: messageOf(dryRun, secretsMissing), version, secretsDetected }
  })

  app.get('/tenant/config/versions', {
    config,
    schema: {
      tags,
      summary: 'List kept versions of the configuration, newest first',
      querystring: Page,
      response: { 200: Versions, ...callerErrors() }
    }
  }, (request) => readPage(request, (page) => service.versions(tenantOf(request), page)))
}

function messageOf (dryRun: boolean, missing: readonly string[]): string {
  const done = dryRun ? 'The configuration is valid; nothing was saved' : 'Configuration saved'
  return missing.length === 0 ? done : `${done}. Store the missing secrets with POST /tenant/secrets: ${missing.join(', ')}`
}
