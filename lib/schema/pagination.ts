/** Sizes of pages. */
import type { Static } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

export const Pagination = ClosedObject({
  defaultLimit: Optional.Integer(
    'The default number of rows per page. Default: 20, or `maxLimit` if that is smaller.',
    { minimum: 1, maximum: 10_000 }
  ),
  maxLimit: Optional.Integer(
    'The maximum number of rows per page. A larger `limit` is reduced to it.',
    { minimum: 1, maximum: 10_000, default: 100 }
  ),
  defaultOffset: Optional.Integer('The default number of skipped rows.', { minimum: 0, maximum: 2_147_483_647, default: 0 })
}, { default: {}, description: 'The pages of lists.' })
export type Pagination = Required<Static<typeof Pagination>>
