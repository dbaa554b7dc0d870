/** The options of the server's logger: what of them the server sets itself, whatever its owner gives. */
import type { FastifyServerOptions } from 'fastify'
import { requestMembers } from './request-log.js'
import { redactLine } from './redaction.js'

type Logger = FastifyServerOptions['logger']

/** Each line of a request says which one, and no line tells a secret; a `mixin` and a `streamWrite` of the owner's go on working. */
export function loggerOptions (given: Logger): Logger {
  // A logger that is made already is none of Fastify's options, and refused by it.
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
