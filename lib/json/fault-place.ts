/** The place of a syntax error in JSON, which `JSON.parse` does not always name. */
import * as jsonc from 'jsonc-parser'

/** Both from 1. */
export interface FaultPlace {
  readonly line: number
  readonly column: number
}

/** Ends the walk at the first fault, since a text may have many. */
class Found extends Error implements FaultPlace {
  constructor (readonly line: number, readonly column: number) {
    super()
  }
}

/** The place of the first token that is not JSON; null for valid JSON. It recurses: the depth of the text must be bounded. */
export function faultPlaceOf (text: string): FaultPlace | null {
  try {
    jsonc.visit(text, {
      onError (_error, _offset, _length, line, column) {
        throw new Found(line + 1, column + 1)
      }
    }, { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false })
    return null
  } catch (error) {
    if (error instanceof Found) return { line: error.line, column: error.column }
    throw error
  }
}
