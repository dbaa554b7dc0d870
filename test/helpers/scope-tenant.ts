/** The tenant of a scope, without a database. */
import type { ScopeTenant } from '../../lib/expressions/types.js'
import { lifeOf, tenantIdOf } from '../../lib/identity/tenant-ref.js'

export function scopeTenant (name: string, config: ScopeTenant['config'] = {}): ScopeTenant {
  const id = tenantIdOf(name)
  return { id, config, life: lifeOf({ id, createdAt: new Date(0) }) }
}
