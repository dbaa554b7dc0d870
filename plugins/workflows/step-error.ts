/** Why a step failed, as it is kept, and as the run rejects with it. */
import type { StepError, StepOutcome } from './journal.js'
import { catalogue, failure, TenantryError } from '../../lib/errors.js'

/** What is kept of an error: nothing of what is not meant for a caller. */
export function stepErrorOf (error: unknown): StepError {
  const { message, code } = error instanceof TenantryError ? error : failure('internal')
  return { message, code }
}

export function failedOf (error: unknown): StepOutcome {
  return { status: 'failed', result: null, error: stepErrorOf(error) }
}

/** It is none of the catalogue: a fault of this server, for its log. */
export function isUnexpected (error: unknown): boolean {
  return !(error instanceof TenantryError) || error.code === catalogue.internal.code
}

/** The error that was kept. */
export function errorOf (kept: StepError | null): TenantryError {
  const entry = Object.values(catalogue).find(({ code }) => code === kept?.code) ?? catalogue.internal
  return new TenantryError(entry, kept === null ? {} : { message: kept.message })
}
