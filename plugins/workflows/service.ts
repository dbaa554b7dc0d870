/** What `app.workflows` is: asynchronous runs of workflows (DESIGN 9). */
import type { Actor } from '../../lib/audit.js'
import type { Scope } from '../../lib/compiler/types.js'
import type { CompiledWorkflow } from '../../lib/workflows/types.js'
import type { LimitedUser } from '../resource-limits/rules.js'

export interface NewRun {
  /** Whose run it is; empty for the platform. */
  readonly tenant: string
  /** The `sub` of who starts it; null for nobody, a webhook say. */
  readonly user: string | null
  readonly workflow: CompiledWorkflow
  /** What the workflow reads of it is stored: no secret, and no header that holds credentials. */
  readonly scope: Scope
  /** Whose limit of workflows a run draws on; null, and without it, nobody's. */
  readonly limitedUser?: LimitedUser | null | undefined
  /** Who asked for it, where that is audited: routes' own workflows are not. */
  readonly actor?: Actor | undefined
}

export interface WorkflowRuns {
  /**
   * Resolves when the run is durable: it will end, whatever happens to this process. Throws `bodyTooLarge` where what it
   * reads of the request is larger than 2 MiB, `queueFull`, `resourceLimit` where the user's limit has no room, and
   * `tenantUnknown` where the tenant is not there or is being deleted.
   */
  start (run: NewRun): Promise<{ workflowId: string }>
  /** Where the status of a run is told, as a path. */
  statusUrl (workflowId: string): string
}
