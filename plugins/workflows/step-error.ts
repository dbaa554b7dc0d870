/** The error of a step, as it is stored and as the run rejects with it. */
import type { StepError, StepOutcome } from './journal.js'
import { catalogue, failure, TenantryError } from '../../lib/errors.js'

/** The stored part of an error: only what a caller may see. */
export function stepErrorOf (error: unknown): StepError {
  const { message, code } = error instanceof TenantryError ? error : failure('internal')
  return { message, code }
}

export function failedOf (error: unknown): StepOutcome {
  return { status: 'failed', result: null, error: stepErrorOf(error) }
}

/** It is not in the error catalogue: a fault of this server, for its log. */
export function isUnexpected (error: unknown): boolean {
  return !(error instanceof TenantryError) || error.code === catalogue.internal.code
}

/** The error that was stored. */
export function errorOf (kept: StepError | null): TenantryError {
  const entry = Object.values(catalogue).find(({ code }) => code === kept?.code) ?? catalogue.internal
  return new TenantryError(entry, kept === null ? {} : { message: kept.message })
}
