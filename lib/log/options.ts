/** The options of the server's logger, some of which override the owner's. */
import type { FastifyServerOptions } from 'fastify'
import { requestMembers } from './request-log.js'
import { redactLine } from './redaction.js'

type Logger = FastifyServerOptions['logger']

/** Each line of a request names the request, and no line contains a secret; the owner's `mixin` and `streamWrite` still work. */
export function loggerOptions (given: Logger): Logger {
  // Fastify's options do not accept a ready logger.
  if (given === undefined || given === false || Reflect.has(Object(given), 'child')) return given
  const options = given === true ? {} : given
  const { mixin, hooks } = options
  const streamWrite = hooks?.streamWrite
  return {
    ...options,
    mixin: mixin === undefined
      ? (_line, _level, logger) => requestMembers(logger)
      : (line, level, logger) => ({ ...requestMembers(logger), ...mixin(line, level, logger) }),
    hooks: { ...hooks, streamWrite: streamWrite === undefined ? redactLine : (line) => redactLine(streamWrite(line)) }
  }
}
