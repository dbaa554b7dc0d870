/** Sizes of pages. */
import { type Static, Type } from 'typebox'
import { Section } from './annotations.js'

export const Pagination = Section({
  defaultLimit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      description: 'The default number of rows per page. Default: 20, or `maxLimit` if that is smaller.'
    })
  ),
  maxLimit: Type.Optional(
    Type.Integer(
      { minimum: 1, maximum: 10_000, default: 100, description: 'The maximum number of rows per page. A larger `limit` is reduced to it.' }
    )
  ),
  defaultOffset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647, default: 0, description: 'The default number of skipped rows.' })
  )
}, { default: {}, description: 'The pages of lists.' })
export type Pagination = Required<Static<typeof Pagination>>
