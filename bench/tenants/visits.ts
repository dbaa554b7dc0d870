/** Requests to the routes of many tenants. */
import { signToken } from '../../test/helpers/tokens.js'
import type { BenchRequest } from '../cases.js'
import { tenantId } from './data.js'
import { routePath } from './document.js'

/** A token of the tenant's administrator. */
export function headersOf (index: number, user = index): Record<string, string> {
  return { authorization: `Bearer ${signToken({ sub: `user-${user}`, role: 'admin', tenant_id: tenantId(index) }, { expiresIn: 86_400 })}` }
}

/**
 * One request to each tenant, in their order or by Zipf's law (the second gets half as many requests as the first). Or the same from as
 * many users of one tenant: then only the tenants differ, not the tokens.
 */
export function visits (count: number, law: 'evenly' | "by Zipf's law", tenants: 'many' | 'one' = 'many'): BenchRequest[] {
  const requests = Array.from({ length: count }, (_, index): BenchRequest => {
    const tenant = tenants === 'many' ? index : 0
    return { method: 'GET', path: routePath(tenant, index % 10), headers: headersOf(tenant, index) }
  })
  if (law === 'evenly') return requests
  const weights: number[] = []
  let total = 0
  for (let rank = 1; rank <= count; rank++) weights.push(total += 1 / rank)
  return Array.from({ length: Math.max(count, 2000) }, (_, draw) => {
    const place = fraction(draw) * total
    let [low, high] = [0, count - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (weights[middle]! < place) low = middle + 1
      else high = middle
    }
    return requests[low]!
  })
}

/** A number from 0 to 1, the same in every run: the fractional parts of multiples of the golden ratio are spread evenly. */
function fraction (draw: number): number {
  return (draw * 0.618_033_988_749_895) % 1
}
