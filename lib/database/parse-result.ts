/** Parses JSON from the database: a tenant may have stored far more keys than one request may send. */
import { failure } from '../errors.js'
import { storedExcess } from '../json/bounds.js'
import { parseJson } from '../json/parse.js'

/** Like `parseJson`. Throws `answerTooLarge` for a text whose keys would block the event loop. */
export function parseResult (text: string): unknown {
  const excess = storedExcess(text)
  if (excess !== null) throw failure('answerTooLarge', { message: `The JSON of the response ${excess}: request fewer records or fields` })
  return parseJson(text)
}
