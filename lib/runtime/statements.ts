/** Runs the statements of a route that writes. */
import type { HeldResults } from '../concurrency/result-memory.js'
import type { Engine, Isolation } from '../database/engine.js'
import type { TenantRef } from '../identity/tenant-ref.js'
import type { BoundQuery } from '../queries/compiled-query.js'

interface StatementUse {
  readonly tenant: TenantRef
  readonly isolation: Isolation | undefined
  readonly isWanted: (() => boolean) | undefined
  readonly held: HeldResults | undefined
}

/** `options`: of its transaction. Without room for the results, the first write is refused when it is about to run, before its effect. */
export function statementsOf (engine: Engine, { held, ...use }: StatementUse) {
  if (held === undefined) return { options: use, sql: ({ statement, values }: BoundQuery) => engine.text(statement, values, use) }
  let hasWritten = false
  const options = {
    ...use,
    isWanted () {
      if (!hasWritten) held.requireRoom()
      return use.isWanted?.() !== false
    }
  }
  return {
    options,
    async sql ({ statement, values }: BoundQuery): Promise<string | null> {
      const text = await engine.text(statement, values, options)
      if (statement.isRead !== true) hasWritten = true
      return text
    }
  }
}
