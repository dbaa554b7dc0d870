/**
 * Circuit breakers: calls to a host that kept failing for a tenant fail at once for a while. Each tenant and host has its own: a host that
 * fails for one tenant stays available to others.
 */
import { LRUCache } from 'lru-cache'
import { failure, retryIn } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

const maxFailures = 5 // in a row
const openMs = 10_000
// Failing hosts: the least recently used are dropped; many hosts of a tenant displace only its own.
const maxTenants = 1000
const maxHosts = 100

interface Circuit {
  failures: number
  /** The time at which one call may try the host again, in ms. */
  openUntil: number
  /** That call is running. */
  trying: boolean
}

/** How a call ended. `abandoned`: the server or the caller ended it, which shows nothing about the host. */
export type Outcome = 'answered' | 'failed' | 'abandoned'

/** `now`: milliseconds. */
export function createCircuits (now: () => number) {
  const tenants = new LRUCache<string, LRUCache<string, Circuit>>({ max: maxTenants })

  function circuitsOf (tenant: Owner): LRUCache<string, Circuit> {
    const known = tenants.get(tenant)
    if (known !== undefined) return known
    const made = new LRUCache<string, Circuit>({ max: maxHosts })
    tenants.set(tenant, made)
    return made
  }

  return {
    /** Throws `providerBusy` while the circuit is open. Otherwise call `end` when the call has ended. */
    enter (tenant: Owner, host: string): void {
      const circuit = tenants.get(tenant)?.get(host)
      if (circuit === undefined || circuit.failures < maxFailures) return
      const remainingMs = circuit.openUntil - now()
      if (remainingMs > 0 || circuit.trying) throw open(remainingMs)
      circuit.trying = true
    },
    end (tenant: Owner, host: string, outcome: Outcome): void {
      const circuit = tenants.get(tenant)?.get(host)
      if (outcome === 'answered') {
        if (circuit !== undefined) tenants.get(tenant)?.delete(host)
        return
      }
      if (circuit !== undefined) circuit.trying = false
      if (outcome === 'abandoned') return
      const failed = circuit ?? { failures: 0, openUntil: 0, trying: false }
      failed.failures++
      if (failed.failures >= maxFailures) failed.openUntil = now() + openMs
      if (circuit === undefined) circuitsOf(tenant).set(host, failed)
    }
  }
}

function open (remainingMs: number): Error {
  const seconds = Math.max(1, Math.ceil(remainingMs / 1000))
  return failure('providerBusy', { message: 'The last calls to this host failed: try again after a pause', ...retryIn(seconds) })
}
