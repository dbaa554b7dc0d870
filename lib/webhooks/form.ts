/** Bodies of `application/x-www-form-urlencoded`. */
import { isUtf8 } from 'node:buffer'

const maxFields = 1000

/** A repeated field has all its values. */
type Form = Readonly<Record<string, string | readonly string[]>>

export function isForm (contentType: string | undefined): boolean {
  return /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i.test(contentType ?? '')
}

/** null if it has more than 1,000 fields, or is not UTF-8. Without a prototype: a field may have any name. */
export function formOf (body: Buffer): Form | null {
  if (!isUtf8(body)) return null
  const text = body.toString()
  let end = -1
  for (let fields = 1; (end = text.indexOf('&', end + 1)) !== -1;) if (++fields > maxFields) return null
  const form: Record<string, string | string[]> = Object.create(null)
  for (const [name, value] of new URLSearchParams(text)) {
    const known = form[name]
    if (known === undefined) form[name] = value
    else if (typeof known === 'string') form[name] = [known, value]
    else known.push(value)
  }
  return form
}
