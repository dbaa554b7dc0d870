/** The parameter `search` of built-in lists: a text that an entry's names contain, in any case, without wildcards. */
import { Type } from 'typebox'

const maxLength = 200 // characters

/** The member of a query string; `names` describes the searched names. */
export function searchQuery (names: string) {
  return {
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength,
        pattern: '^[^\\u0000]*$',
        description: `Text that ${names} of the listed entries must contain, ignoring case.`
      })
    )
  }
}

/** Whether one of the names contains the text; true without a text. For lists in memory. */
export function isFound (search: string | undefined, ...names: readonly string[]): boolean {
  if (search === undefined) return true
  const sought = search.toLowerCase()
  return names.some((name) => name.toLowerCase().includes(sought))
}
