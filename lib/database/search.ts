/** The condition of `search` in SQL, see lib/http/page.ts. */
import { sql, type RawBuilder } from 'kysely'

/** One of the columns contains the text, in any case, without wildcards such as the `%` of `like`. */
export function containsText (search: string, ...columns: readonly string[]): RawBuilder<boolean> {
  return sql<boolean>`(${sql.join(columns.map((column) => sql`strpos(lower(${sql.ref(column)}), lower(${search})) > 0`), sql` or `)})`
}
