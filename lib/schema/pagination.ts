/** Sizes of pages. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const Pagination = Section({
  defaultLimit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      description: 'Rows a page when the query string names no `limit`. Default: 20, or `maxLimit` where that is smaller.'
    })
  ),
  maxLimit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 10_000, default: 100, description: 'Rows a page at most: a larger `limit` is lowered to it.' })
  ),
  defaultOffset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647, default: 0, description: 'Rows to skip when the query string names no `offset`.' })
  )
}, { default: {}, description: 'The pages of lists.' })
export type Pagination = Required<Static<typeof Pagination>>
