/** Work on the items of many tenants: those of one tenant one after another, several tenants at a time. */
import type { Owner } from '../identity/tenant-ref.js'

/** The items of each tenant, in their order. */
export function byTenant<Item> (items: readonly Item[], tenantOf: (item: Item) => Owner): Map<Owner, Item[]> {
  const groups = new Map<Owner, Item[]>()
  for (const item of items) {
    const tenant = tenantOf(item)
    const group = groups.get(tenant)
    if (group === undefined) groups.set(tenant, [item])
    else group.push(item)
  }
  return groups
}

/** Calls `work` with the items of each tenant, for `atOnce` tenants at a time. */
export async function forEachTenant<Item extends { readonly tenant: Owner }> (
  items: readonly Item[],
  atOnce: number,
  work: (items: readonly Item[]) => Promise<void>
): Promise<void> {
  const waiting = [...byTenant(items, ({ tenant }) => tenant).values()]
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let own = waiting.shift(); own !== undefined; own = waiting.shift()) await work(own)
  }))
}
