/** The tables that the database has now: the engine's own catalogue also includes declared tables that are not created yet. */
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import { readCatalogue } from '../../lib/database/catalogue-reader.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

export async function liveTables (engine: Pick<Engine, 'catalogue' | 'transaction'>): Promise<Catalogue['tables']> {
  const { catalogue } = await engine.transaction({ tenant: platformRef }, (session) => readCatalogue(session, engine.catalogue.schema))
  return catalogue.tables
}

/** Conflicts of a new table with that name. */
export interface NameUse {
  /** The schema exists. */
  readonly schema: boolean
  /** Another object has the name: a partition, an index, a sequence, a type. */
  readonly taken: boolean
}

// Array types rename themselves.
const nameUseText = `select n.oid is not null as schema,
  exists (select from pg_class where relnamespace = n.oid and relname = $2) or exists (select from pg_type where typnamespace = n.oid and typname = $2 and typcategory <> 'A') as taken
from (values ($1::text)) asked (name) left join pg_namespace n on n.nspname = asked.name`

export async function nameUse (engine: Pick<Engine, 'catalogue' | 'transaction'>, name: string): Promise<NameUse> {
  const [found] = await engine.transaction(
    { tenant: platformRef },
    (session) => session.rows<{ schema: boolean, taken: boolean }>({ text: nameUseText }, [engine.catalogue.schema, name])
  )
  return { schema: found?.schema === true, taken: found?.taken === true }
}
