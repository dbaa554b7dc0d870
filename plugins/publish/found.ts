/** The tables as the database has them now: the engine's own catalogue also holds those that are declared and not made yet. */
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { Engine } from '../../lib/database/engine.js'
import { readCatalogue } from '../../lib/database/catalogue-reader.js'

export async function foundTables (engine: Pick<Engine, 'catalogue' | 'transaction'>): Promise<Catalogue['tables']> {
  const { catalogue } = await engine.transaction({ tenantId: null }, (session) => readCatalogue(session, engine.catalogue.schema))
  return catalogue.tables
}
