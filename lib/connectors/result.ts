/** Turns a service's response into the result of a call. */
import type { FaultList } from '../schema/faults.js'
import type { CompiledCall, OutboundResponseLike } from './types.js'
import { member } from '../expressions/reference.js'
import { parsePath, TemplateSyntaxError } from '../expressions/template-parser.js'
import { failure } from '../errors.js'
import { parseJson } from '../json/parse.js'
import { jsonExcess } from '../json/bounds.js'

// Drops a byte order mark, which some services send.
const utf8 = new TextDecoder()

/** Compiles the path of the result: own members and items, or the whole response. Null after faults. */
export function compileResult (picked: string | undefined, pointer: string, faults: FaultList): CompiledCall['result'] | null {
  if (picked === undefined) return valueOf
  try {
    const { source, path, call } = parsePath(picked)
    if (call) throw new TemplateSyntaxError('expected the path of a member', 0)
    return (response) => {
      let value = valueOf(response)
      for (const name of [source, ...path]) value = member(value, name)
      return value ?? null
    }
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error
    faults.add(pointer, `${error.message} (at character ${error.position + 1})`)
    return null
  }
}

function valueOf ({ headers, body }: OutboundResponseLike): unknown {
  if (body.length === 0) return null
  const text = utf8.decode(body)
  if (!/^[^;]*[/+]json\s*(?:;|$)/i.test(headers['content-type'] ?? '')) return text
  const excess = jsonExcess(text)
  if (excess !== null) throw failure('providerAnswerTooComplex', { message: `The JSON in the provider's response ${excess}` })
  try {
    return parseJson(text)
  } catch {
    throw failure('providerFailed', { message: 'The response of the provider is not valid JSON' })
  }
}
