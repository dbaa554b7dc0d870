/** `app.routeFiles`: the forms of declared routes, and the steps of workflows. */
import type { FastifyRequest } from 'fastify'
import type { FileRules } from '../../lib/files/rules.js'
import type { RouteFiles } from './declared.js'
import type { FilesService } from './service.js'
import type { Uploader } from './types.js'
import { failure } from '../../lib/errors.js'
import { actorOf } from '../auth/actor.js'
import { reading } from './body.js'
import { receiveRouteForm } from './route-form.js'
import { createStorageRunner } from './storage-runner.js'
import { uploadTenantOf } from './uploader.js'

/** @param slowMs  milliseconds over which a form must bring 1 KB a second */
export function createRouteFiles (service: FilesService, rules: FileRules, slowMs: number): RouteFiles {
  return {
    rules,
    step: createStorageRunner(service),
    async receive (request, form) {
      if (!request.isMultipart()) throw failure('mediaTypeUnsupported', { message: 'Send the form as multipart/form-data' })
      const tenant = uploadTenantOf(request)
      const receive = (slow: Promise<never>) => receiveRouteForm(request, form, tenant, service, uploaderOf(request), slow)
      return await service.uploads.inPlace(tenant.id, () => reading(request.raw, slowMs, receive))
    }
  }
}

/** A route may be open to callers without a token. */
function uploaderOf (request: FastifyRequest): Uploader {
  return { sub: request.auth?.sub ?? '', actor: actorOf(request) }
}
