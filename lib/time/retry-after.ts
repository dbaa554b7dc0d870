/** Seconds of a `Retry-After` header, which has seconds or a date (RFC 9110, 10.2.3); undefined for other values. */
export function retryAfterOf (header: string | null | undefined, now = Date.now()): number | undefined {
  const text = header?.trim() ?? ''
  if (/^\d{1,9}(?:\.\d+)?$/.test(text)) return Math.ceil(Number(text))
  const date = /^[A-Z][a-z]{2}, .* GMT$/.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000))
}
