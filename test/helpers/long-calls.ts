/** Calls of services that last while a test does other things, for which a busy machine takes longer than their ten seconds. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { failure } from '../../lib/errors.js'

/** From now on the calls of the app may take ten minutes. Returns a function that ends them. */
export function allowLongCalls (t: Test, { integrations }: FastifyInstance): () => void {
  const over = new AbortController()
  const { run } = integrations
  t.intercept(integrations, 'run', {
    value: (call: Parameters<typeof run>[0], scope: Parameters<typeof run>[1], options: Parameters<typeof run>[2]) =>
      run(call, scope, { ...options, timeoutMs: 600_000, signal: over.signal })
  })
  return () => over.abort(failure('providerTimeout'))
}
