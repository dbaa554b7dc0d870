/** The states of background jobs, in their order: the first two are waiting states. Each has its own indexes. */
export const jobStates = ['created', 'retry', 'active', 'completed', 'cancelled', 'failed'] as const
export type JobState = typeof jobStates[number]
