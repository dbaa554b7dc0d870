/** Spans of time in milliseconds. A day has 24 hours, as in UTC. */
export const hourMs = 3_600_000
export const dayMs = 86_400_000
