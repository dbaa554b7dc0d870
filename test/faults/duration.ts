/** The duration of each fault: FAULT_SECONDS, ten minutes by default. */
export const faultSeconds = Number(process.env['FAULT_SECONDS'] ?? 600)
