import { failure } from '../errors.js'
import { ConfigError } from '../schema/faults.js'

const maxDetails = 100

/** Throws a ConfigError as `configInvalid`, with its faults as details, and any other error unchanged. */
export function refuse (error: unknown): never {
  if (!(error instanceof ConfigError)) throw error
  const details = error.faults.slice(0, maxDetails).map(({ pointer, message, suggestion }) => ({
    path: pointer,
    message: suggestion === undefined ? message : `${message}; did you mean "${suggestion}"?`,
    keyword: 'config'
  }))
  throw failure('configInvalid', { extras: { details } })
}
