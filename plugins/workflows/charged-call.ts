/** Calls of steps that cost money: a call that may have been charged is never repeated, not even after a crash. */
import type { StepCall } from '../../lib/workflows/service-steps.js'
import { failure } from '../../lib/errors.js'
import { isCharged, markCharged } from '../../lib/models/failures.js'

/** Rejects with `stepAnswerLost` if the step has made its call before. */
export async function chargedOnce<Result> (
  { wasSent, note }: Pick<StepCall, 'wasSent' | 'note'>,
  make: () => Promise<Result>
): Promise<Result> {
  if (wasSent) {
    const error = failure('stepAnswerLost')
    markCharged(error)
    throw error
  }
  await note(true)
  try {
    return await make()
  } catch (error) {
    if (!isCharged(error)) await note(false)
    throw error
  }
}
