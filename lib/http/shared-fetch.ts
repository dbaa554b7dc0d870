/**
 * `fetch` for the services that the platform names: identity providers, payment providers, servers of tools. Their names are looked up
 * once for all callers: each lookup of the system's resolver holds a thread, which the database's connections need too.
 */
import type { Agent } from 'undici'
import { lookupForSocket } from '../concurrency/shared-lookup.js'

const connectMs = 5000
const clientTtl = 60_000 // ms, after which another connection takes further requests: the name may have another address

let agent: Promise<Agent> | undefined

/** The package is loaded with the first call. */
async function open (): Promise<Agent> {
  const { Agent } = await import('undici')
  return new Agent({ connect: { timeout: connectMs, lookup: lookupForSocket }, clientTtl })
}

export async function sharedFetch (url: string | URL, init: RequestInit): Promise<Response> {
  agent ??= open()
  // The types of `fetch` are those of another version of undici.
  return await fetch(url, Object.assign(init, { dispatcher: await agent }))
}
