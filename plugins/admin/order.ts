/** The order of a list in the query string: `title.desc,"a, b".asc.nullsfirst`. */
import type { Order } from '../../lib/schema/query.js'
import { invalidInput } from '../../lib/validation/detail.js'

const maxKeys = 5
const key = /(?:"((?:[^"]|"")+)"|([^".,]+))(?:\.(asc|desc))?(?:\.(nullsfirst|nullslast))?(,|$)/sy

/** Throws `validationFailed`. Does not check whether the columns exist. */
export function readOrder (text: string): Order[] {
  const keys: Order[] = []
  key.lastIndex = 0
  for (;;) {
    const match = key.exec(text)
    if (match === null) {
      throw invalidInput(
        '/query/order',
        'must be columns with their directions, such as title.desc,id.asc; .nullsfirst or .nullslast may follow',
        'pattern'
      )
    }
    const [, quoted, bare = '', direction = 'asc', nulls, end] = match
    keys.push({
      column: quoted?.replaceAll('""', '"') ?? bare,
      ascending: direction === 'asc',
      ...nulls !== undefined && { nullsFirst: nulls === 'nullsfirst' }
    })
    if (keys.length > maxKeys) throw invalidInput('/query/order', `must be at most ${maxKeys} columns`, 'maxItems')
    if (end === '') return keys
  }
}
