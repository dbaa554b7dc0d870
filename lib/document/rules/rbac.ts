/** Checks of the section `rbac` beyond its schema: the names of its tables. */
import type { FaultList } from '../../schema/faults.js'
import type { Rbac } from '../../schema/rbac.js'
import { systemMigrations } from '../../database/migrations/system/index.js'
import { rolePermissions, type RoleTables } from '../../database/role-tables.js'
import { filled } from '../defaults.js'

/** The server's own tables, whose names are not available. */
const taken: ReadonlySet<string> = new Set([
  ...systemMigrations.flatMap(({ tables }) => tables).map((name) => name.replace(/^tenantry\./, '')),
  rolePermissions
])

export function checkRbac (rbac: Rbac, faults: FaultList): void {
  const named = new Map<string, string>()
  for (const member of ['rolesTable', 'permissionsTable', 'userRolesTable'] as const) {
    const name = rbac[member]
    if (name === undefined) continue
    const other = named.get(name)
    if (taken.has(name)) faults.add(`/rbac/${member}`, `"${name}" is another table of the server`)
    else if (other !== undefined) faults.add(`/rbac/${member}`, `"${name}" is already the \`${other}\``)
    named.set(name, member)
  }
}

/** The tables of a section; undefined if it is disabled. */
export function roleTablesOf (rbac: Rbac): RoleTables | undefined {
  if (!rbac.enabled) return undefined
  const { rolesTable: roles, permissionsTable: permissions, userRolesTable: userRoles } = filled(
    rbac,
    'rolesTable',
    'permissionsTable',
    'userRolesTable'
  )
  return { roles, permissions, userRoles }
}
