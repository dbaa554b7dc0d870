/** Checks of the section `tenancy` beyond its schema. */
import type { TableDefinition } from '../../schema/table.js'
import type { Tenancy } from '../../schema/tenancy.js'
import type { Entry } from '../sections.js'
import { tenantColumn } from '../../database/catalogue.js'
import { nearest, pointerTo, type FaultList } from '../../schema/faults.js'

/** Settings that would let a tenant act as the server, or as the platform at its providers. */
const ownSettings: ReadonlySet<string> = new Set([
  'API_KEY',
  'ALTPROV_API_KEY',
  'ALTPROV_WEBHOOK_SECRET',
  'DATABASE_URL',
  'JWT_SECRET',
  'PAYPROV_API_KEY',
  'PAYPROV_WEBHOOK_SECRET',
  'SECRETS_MASTER_KEY',
  'SECRETS_PREVIOUS_KEYS'
])

/** `complete`: these are all tables; otherwise an undeclared one may exist in the database. */
export function checkTenancy (
  { sharedTables, env }: Tenancy,
  tables: readonly Entry<TableDefinition>[],
  complete: boolean,
  faults: FaultList
): void {
  const declared = new Map(tables.map(({ name, value }) => [name, value]))
  for (const [index, name] of sharedTables.entries()) {
    const at = pointerTo('/tenancy/sharedTables', index)
    const table = declared.get(name)
    if (table === undefined) {
      if (complete) faults.add(at, `there is no table "${name}"`, nearest(name, declared.keys()))
    } else if (table.tenantScoped === true || Object.hasOwn(table.columns, tenantColumn)) {
      faults.add(
        at,
        `each row of "${name}" belongs to a tenant, so tenants' documents can already use it: only tables of the platform can be shared`
      )
    }
  }
  for (const [index, name] of env.entries()) {
    if (ownSettings.has(name)) {
      faults.add(pointerTo('/tenancy/env', index), `the setting ${name} belongs to the server: tenants cannot read it`)
    }
  }
}
