/** Turns any thrown value into an error of the catalogue, logs it, and sends its body. */
import { type Server, STATUS_CODES } from 'node:http'
import type { ErrorObject } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { catalogue, codeOf, failure, type OtherName, retryIn, TenantryError } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { isRecord } from '../json/plain-value.js'
import { createRepeatedFailures, type RepeatedFailures } from '../log/repeated-failures.js'
import { noteErrorCode } from '../log/request-log.js'
import { type RequestPart, validationError } from '../validation/validator.js'
import { trustsTenantHeader } from './account.js'
import { hasUnsentContent, removeContent } from './caching.js'
import { requestIdHeader, securityHeaders } from './first-hooks.js'

const requestParts: readonly RequestPart[] = ['body', 'params', 'querystring', 'headers']

/** Errors that are not logged as failures: the server stops, lacks a setting, or limits a rate. Otherwise callers could fill the log. */
const calm: ReadonlySet<string> = new Set([
  catalogue.stopping.code,
  catalogue.billingNotConfigured.code,
  catalogue.mailNotConfigured.code,
  catalogue.rateLimited.code
])

/** By the HTTP server, which all contexts of an app share. */
const failures = new WeakMap<Server, RepeatedFailures>()

function failuresOf ({ server, log }: FastifyInstance): RepeatedFailures {
  let known = failures.get(server)
  if (known === undefined) failures.set(server, known = createRepeatedFailures(log))
  return known
}

/** Logs the errors that were counted but not logged in full. */
export function endErrorLog ({ server }: FastifyInstance): void {
  failures.get(server)?.close()
}

/** Fastify's `frameworkErrors`: requests that fail before routing, such as malformed URLs. They reach no hook. */
export function handleUnroutedError (thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  handleError(thrown, request, reply.headers(securityHeaders).header(requestIdHeader, request.id))
}

export function handleError (thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // The caller closed its connection before its body was complete. It is logged like every request, with the status 499.
  if (request.raw.destroyed && !request.raw.complete && codeOf(thrown) === 'ECONNRESET') {
    reply.hijack()
    return
  }
  if (hasUnsentContent(reply)) {
    removeContent(reply)
    // The content may have had another of them.
    if (reply.raw.hasHeader(requestIdHeader)) reply.headers(securityHeaders)
  }
  const refused = refusalOf(thrown, reply)
  if (refused !== null && !(refused instanceof TenantryError)) {
    reply.code(Number(refused['statusCode'])).send(refused)
    return
  }
  const error = reportError(refused ?? thrown, request, request.routeOptions.url)
  if (isAlarming(error)) noteErrorCode(request, error.code)
  reply.code(error.statusCode).headers(error.headers).send(error.toBody(request.id))
}

/** The catalogue's error for what a route threw, in words for its caller. Failures of the server are logged. */
export function reportError (
  thrown: unknown,
  call: Pick<FastifyRequest, 'method' | 'auth' | 'log' | 'server'> & { readonly tenant?: { readonly id: Owner } | null },
  path = ''
): TenantryError {
  const error = forCaller(toTenantryError(thrown), call)
  const { log } = call
  if (isAlarming(error) && failuresOf(call.server).isFirst(error, call.tenant?.id, `${call.method} ${path}`)) {
    log.error({ err: error }, error.message)
  } else log.debug({ err: error }, error.message)
  return error
}

function isAlarming ({ statusCode, code }: TenantryError): boolean {
  return statusCode >= 500 && !calm.has(code)
}

/** A user cannot name a tenant with a header, so the message does not suggest it. */
function forCaller (error: TenantryError, { auth, server }: Pick<FastifyRequest, 'auth' | 'server'>): TenantryError {
  const isAsked = error.code === catalogue.tenantRequired.code && error.message === catalogue.tenantRequired.message
  if (!isAsked || (auth ?? null) === null || auth?.role === 'admin' || trustsTenantHeader(server)) return error
  return failure('tenantRequired', {
    message: "This resource belongs to a tenant: the caller's token must have the tenant in its claim tenant_id"
  })
}

/** The refusal of @fastify/rate-limit, which sets Retry-After itself, or the app's own body for it, unchanged; null for other errors. */
function refusalOf (thrown: unknown, reply: FastifyReply): TenantryError | Record<string, unknown> | null {
  const retryAfter = reply.getHeader('retry-after')
  if (retryAfter === undefined || thrown instanceof TenantryError || !isRecord(thrown)) return null
  const { statusCode: status, message } = thrown
  if (typeof status !== 'number' || status < 400 || status > 599) return null
  if (!(thrown instanceof Error)) return thrown
  const title = STATUS_CODES[status] ?? catalogue.rateLimited.title
  return new TenantryError({ ...catalogue.rateLimited, status, title }, {
    ...typeof message === 'string' && { message },
    extras: { retryAfter: Number(retryAfter) },
    cause: thrown
  })
}

/** The catalogue's error for any thrown value. Only Fastify's own errors, and those with `expose`, keep their 4xx status. */
function toTenantryError (thrown: unknown): TenantryError {
  if (thrown instanceof TenantryError) return thrown
  const error: Record<string, unknown> = isRecord(thrown) ? thrown : {}
  // Errors of Fastify, of its plugins and of `http-errors` have these members.
  const { code, statusCode, expose, message, validation, validationContext } = error
  if (isValidation(validation)) return validationError(validation, requestParts.find((part) => part === validationContext) ?? 'body')
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    if (typeof code === 'string' && code.startsWith('FST_')) return entryFor(statusCode, undefined, thrown)
    if (expose === true && typeof message === 'string') return entryFor(statusCode, message, thrown)
  }
  return failure('internal', { cause: thrown })
}

const nameByStatus: Readonly<Record<number, OtherName>> = {
  400: 'badRequest',
  401: 'tokenInvalid',
  403: 'forbidden',
  404: 'notFound',
  409: 'conflict',
  413: 'bodyTooLarge',
  415: 'mediaTypeUnsupported'
}

function entryFor (status: number, message: string | undefined, cause: unknown): TenantryError {
  const name = nameByStatus[status]
  const details = message === undefined ? { cause } : { message, cause }
  if (name !== undefined) return failure(name, details)
  if (status === 429) return failure('rateLimited', { ...details, ...retryIn(1) })
  const title = STATUS_CODES[status] ?? catalogue.badRequest.title
  return new TenantryError({ ...catalogue.badRequest, status, title }, details)
}

/** The errors of a route that keeps Fastify's own validator. */
function isValidation (value: unknown): value is readonly ErrorObject[] {
  return Array.isArray(value) &&
    value.every((fault: unknown) => isRecord(fault) && 'keyword' in fault && 'instancePath' in fault && 'params' in fault)
}
