/** Errors that a function raises, for its caller. */
import { failure, isFailure } from '../errors.js'

/** RAISE EXCEPTION without a code of its own: the function refuses, and its text is for the log. */
export function raisedIn (error: unknown): unknown {
  const raised = isFailure(error, 'constraintViolated') && error.cause instanceof Error && 'state' in error.cause &&
    error.cause.state === 'P0001'
  return raised ? failure('functionRefused', { cause: error.cause }) : error
}
