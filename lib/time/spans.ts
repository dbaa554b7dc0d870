/** Spans of time in milliseconds. A day is one of UTC. */
export const hourMs = 3_600_000
export const dayMs = 86_400_000
