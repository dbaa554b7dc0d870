/** Pages of the lists that built-in endpoints answer (SPEC "Limits" 3 and "Pagination envelope"). */
import { Type, type TSchema } from 'typebox'

const defaultLimit = 20
const maxLimit = 100

/** The members of a query string that asks for a page; `items` is what the list holds. */
export function pageQuery (items: string, maxOffset: number = Number.MAX_SAFE_INTEGER) {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, default: defaultLimit, description: `${items} a page, at most ${maxLimit}: a larger number is lowered to it.` })),
    offset: Type.Optional(Type.Integer({ minimum: 0, maximum: maxOffset, default: 0, description: `${items} to skip.` }))
  }
}

/** The page that a query string asks for. */
export function pageOf ({ limit = defaultLimit, offset = 0 }: { limit?: number | undefined, offset?: number | undefined }): { limit: number, offset: number } {
  return { limit: Math.min(limit, maxLimit), offset }
}

/** The answer: a page, and how many there are in all. */
export function ListOf<Item extends TSchema> (item: Item) {
  return Type.Object({
    data: Type.Array(item),
    pagination: Type.Object({ limit: Type.Integer(), offset: Type.Integer(), total: Type.Integer() })
  })
}
