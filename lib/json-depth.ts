/** How deep the JSON nests that others send. */

/** Arrays and objects inside each other: what walks a value (validators, templates, `JSON.stringify`) may recurse. */
export const maxJsonDepth = 64

const quote = 0x22
const backslash = 0x5c

/** Counts brackets outside strings; says nothing on whether the text is JSON. `limit`: the depth that is not too deep. */
export function isTooDeep (text: string, limit = maxJsonDepth): boolean {
  if (!hasMoreOpeners(text, limit)) return false
  let depth = 0
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case quote:
        index = endOfString(text, index)
        break
      case 0x5b: case 0x7b: // [ {
        if (++depth > limit) return true
        break
      case 0x5d: case 0x7d: // ] }
        depth--
    }
  }
  return false
}

/** Most texts have few brackets, in strings or not, and are told apart at the speed of a search. */
function hasMoreOpeners (text: string, limit: number): boolean {
  let count = 0
  for (const opener of ['{', '[']) {
    for (let index = text.indexOf(opener); index !== -1; index = text.indexOf(opener, index + 1)) {
      if (++count > limit) return true
    }
  }
  return false
}

/** The index of the quote that ends the string: the next one after an even number of backslashes; or the text's length. */
function endOfString (text: string, start: number): number {
  for (let index = text.indexOf('"', start + 1); index !== -1; index = text.indexOf('"', index + 1)) {
    let before = index - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((index - before) % 2 === 1) return index
  }
  return text.length
}
