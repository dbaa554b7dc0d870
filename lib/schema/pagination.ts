/** Sizes of pages. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const Pagination = Section({
  defaultLimit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      description: 'Rows in a page without `limit` in the query string. Default: 20, or `maxLimit` if that is smaller.'
    })
  ),
  maxLimit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 10_000, default: 100, description: 'The highest number of rows in a page. A larger `limit` is lowered to it.' })
  ),
  defaultOffset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647, default: 0, description: 'Rows to skip without `offset` in the query string.' })
  )
}, { default: {}, description: 'The pages of lists.' })
export type Pagination = Required<Static<typeof Pagination>>
