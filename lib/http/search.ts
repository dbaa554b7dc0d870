/** The parameter `search` of built-in lists: a text that the names of an entry contain, in any case. No character of it is a wildcard. */
import { Type } from 'typebox'

const maxLength = 200 // characters

/** The member of a query string; `names` says what is searched. */
export function searchQuery (names: string) {
  return {
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength,
        pattern: '^[^\\u0000]*$',
        description: `Only entries with this text in ${names}, in upper or lower case.`
      })
    )
  }
}

/** Whether one of the names contains the text; true without a text. For lists that are at hand as a whole. */
export function isFound (search: string | undefined, ...names: readonly string[]): boolean {
  if (search === undefined) return true
  const sought = search.toLowerCase()
  return names.some((name) => name.toLowerCase().includes(sought))
}
