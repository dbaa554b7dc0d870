/** How long each fault lasts: FAULT_SECONDS, ten minutes by default. */
export const faultSeconds = Number(process.env['FAULT_SECONDS'] ?? 600)
