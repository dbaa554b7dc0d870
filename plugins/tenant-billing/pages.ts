/** Lists of payprov, read page by page, with cursors of this API. */
import { invalidInput } from '../../lib/validation/detail.js'
import type { Page } from './records.js'

export type Resource = 'products' | 'customers' | 'subscriptions'

/** payprov's maximum. */
export const pageSize = 100
export const maxItems = 1000
const maxCharacters = 5_242_880 // of the records of a response, as JSON; beyond it the response ends after the current page
const maxPage = 10_000_000

export interface ProviderPage<Item> {
  readonly items: Item[]
  /** The position of the next records; absent at the end. */
  readonly nextCursor?: string
}

/**
 * Reads pages until there are 1,000 records or no more. If earlier records were removed meanwhile, a record can come twice; it
 * is returned once.
 *
 * @param cursor of the previous response; undefined for the first. Throws `validationFailed` for any other text
 */
export async function listAll<Item extends { readonly id: string }> (
  resource: Resource,
  cursor: string | undefined,
  read: (page: number) => Promise<Page<Item>>
): Promise<ProviderPage<Item>> {
  const first = cursor === undefined ? 1 : pageOfCursor(resource, cursor)
  const items = new Map<string, Item>()
  let characters = 0
  for (let page = first; ; page++) {
    const { items: found, maxPage: last } = await read(page)
    for (const item of found) items.set(item.id, item)
    characters += JSON.stringify(found).length
    if (page >= last || found.length === 0) return { items: [...items.values()] }
    if ((page - first + 1) * pageSize >= maxItems || characters >= maxCharacters) {
      return { items: [...items.values()], nextCursor: cursorOf(resource, page + 1) }
    }
  }
}

function cursorOf (resource: Resource, page: number): string {
  return Buffer.from(`${resource}:${page}`).toString('base64url')
}

function pageOfCursor (resource: Resource, cursor: string): number {
  const [name, page] = Buffer.from(cursor, 'base64url').toString('latin1').split(':')
  const number = Number(page)
  if (
    name === resource && Number.isInteger(number) && number > 1 && number <= maxPage && cursorOf(resource, number) === cursor
  ) { return number }
  throw invalidInput('/query/cursor', 'must be the `nextCursor` of a response of this list', 'format')
}
