/** The uploader of a request. */
import type { FastifyRequest } from 'fastify'
import type { Uploader } from './types.js'
import type { UploadTenant } from './uploads.js'
import { actorOf } from '../auth/actor.js'
import { callerOf } from '../auth/access.js'
import { tenantOf } from '../tenancy/required.js'

export function uploaderOf (request: FastifyRequest): Uploader {
  return { sub: callerOf(request).sub, actor: actorOf(request) }
}

export function uploadTenantOf (request: FastifyRequest): UploadTenant {
  const id = tenantOf(request)
  return { id, plan: request.tenant?.plan ?? '' }
}
