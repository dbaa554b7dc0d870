/** UUIDs, which are the ids of rows of the server. */

const form = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/
/** In any case, as callers may send it. */
export const uuidForm = new RegExp(form, 'i')

/** Whether the text is a UUID as the database returns it, in lower case. The database accepts it in any case. */
export function isUuid (text: unknown): text is string {
  return typeof text === 'string' && form.test(text)
}
