/** Pages of lists that are sorted by key. */
import type * as Sdk from '@modelcontextprotocol/server'

const maxItems = 50 // of a page
const maxCharacters = 262_144 // of a page with several items
const cursorForm = /^[A-Za-z0-9_-]{1,4096}$/

/**
 * The items after the cursor, which holds the key of the last item before it. Items added or removed in between thus do not move
 * others to another page. Throws for an invalid cursor.
 */
export function pageAfter<Item> (
  sdk: typeof Sdk,
  items: readonly Item[],
  cursor: string | undefined,
  keyOf: (item: Item) => string,
  sizeOf: (item: Item) => number
): { items: Item[], nextCursor?: string } {
  const last = cursor === undefined ? undefined : keyFrom(sdk, cursor)
  const start = last === undefined ? 0 : items.findIndex((item) => keyOf(item) > last)
  if (start === -1) return { items: [] }
  let size = 0
  let end = start
  for (const item of items.slice(start, start + maxItems)) {
    size += sizeOf(item)
    if (end > start && size > maxCharacters) break
    end++
  }
  const page = items.slice(start, end)
  const final = page.at(-1)
  return end < items.length && final !== undefined
    ? { items: page, nextCursor: Buffer.from(keyOf(final)).toString('base64url') }
    : { items: page }
}

export function invalidCursor (sdk: typeof Sdk): Error {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'The cursor was not issued by this server: start without a cursor')
}

function keyFrom (sdk: typeof Sdk, cursor: string): string {
  if (!cursorForm.test(cursor)) throw invalidCursor(sdk)
  return Buffer.from(cursor, 'base64url').toString()
}
