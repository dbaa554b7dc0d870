/** A workflow ready to run: plain frozen data with closures in it, free of I/O. */
import type { CompiledCall } from '../connectors/types.js'
import type { CompiledQuery, CompiledValue, Reference, Scope } from '../expressions/types.js'
import type { TableUse } from '../cache/store.js'
import type { Condition, ReportFault } from '../expressions/condition.js'
import type { CopyCheck } from '../expressions/copies.js'
import type { Callback, Step } from '../schema/workflow.js'

/** A workflow as it was declared: plain JSON, which compiles again to the same against today's tables and connectors. */
export interface WorkflowDefinition {
  /** Of a named one what `ref` names; of an inline one its `id`, where it has one. */
  readonly id?: string
  /** Its steps read `input` and other steps, not the request: it stands among a document's `workflows`. */
  readonly named: boolean
  readonly steps: readonly Step[]
  readonly webhookOnComplete?: Callback
}

/** What a workflow reads of the request that starts it. Secrets are not among it: they are read anew wherever it runs. */
export interface ReadSources {
  readonly body: boolean
  readonly params: boolean
  readonly query: boolean
  /** Names in lower case. */
  readonly headers: readonly string[]
  readonly auth: boolean
  readonly tenant: boolean
  readonly files: boolean
  readonly input: boolean
  readonly payload: boolean
}

/** The receiver of the end of a run. */
export interface CompiledCallback {
  readonly url: CompiledValue
  /** null: the tenant's generated one signs. */
  readonly secret: CompiledValue | null
  /** Measures what both would copy, as that of a step does. */
  readonly copies: CopyCheck | null
  /** The address is fixed in the platform's document. */
  readonly trusted: boolean
}

export interface CompiledWorkflow {
  readonly id: string | null
  /** As it was declared. */
  readonly definition: WorkflowDefinition
  /** Whose document it stands in. */
  readonly origin: 'platform' | 'tenant'
  /** In the order of the list, without those that a switch picks. */
  readonly steps: readonly CompiledStep[]
  /** All of them in the order of the document, those within others and those that a switch picks included. */
  readonly stepIds: readonly string[]
  /** Those of whose result or error something reads: it is parsed for them. */
  readonly readSteps: ReadonlySet<string>
  readonly sources: ReadSources
  /** All that it reads of a scope. */
  readonly references: readonly Reference[]
  /** The keys of the secrets that it can read, each once. */
  readonly secrets: readonly string[]
  /** A query of it reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  /** Steps call other services. */
  readonly calls: boolean
  /** Steps say how long they may take. */
  readonly timed: boolean
  /** Steps wait for more than the database: for other services, for what other plugins run, or before they are tried again. */
  readonly waits: boolean
  /** What its queries read and what they write: of two queries on one table, once. */
  readonly reads: readonly TableUse[]
  readonly writes: readonly TableUse[]
  readonly callback: CompiledCallback | null
}

/** What every step has. */
interface StepBase {
  readonly id: string
  /** Whether it runs; null: always. What cannot be computed is false. */
  readonly condition: Condition | null
  /** Tries in all. */
  readonly attempts: number
  /** Milliseconds before the second try; each further wait is twice as long. */
  readonly backoffMs: number
  /** Of one try; null: as long as it takes. */
  readonly timeoutMs: number | null
  /** A failure of it does not end the workflow. */
  readonly continues: boolean
  /** Measures what its templates would copy before they are evaluated; null where that can never be much. */
  readonly copies: CopyCheck | null
}

export interface DatabaseStep extends StepBase {
  readonly kind: 'database'
  readonly query: CompiledQuery
}

export interface IntegrationStep extends StepBase {
  readonly kind: 'integration'
  readonly call: CompiledCall
}

/** A kind of step that another part of the server runs. */
export type RunnerKind = 'llm' | 'embeddings' | 'storage' | 'realtime'

export interface RunnerStep extends StepBase {
  readonly kind: RunnerKind
  /** Its members, such as `prompt` and `model`, by name. */
  readonly members: CompiledValue
}

export interface SwitchStep extends StepBase {
  readonly kind: 'switch'
  /** What picks the step; undefined where it cannot be computed. */
  readonly value: (scope: Scope, report: ReportFault) => unknown
  readonly cases: ReadonlyMap<string, CompiledStep>
  readonly fallback: CompiledStep | null
}

export interface ParallelStep extends StepBase {
  readonly kind: 'parallel'
  readonly steps: readonly CompiledStep[]
}

export type CompiledStep = DatabaseStep | IntegrationStep | RunnerStep | SwitchStep | ParallelStep

/** Faults of the members of a step, found by the runner of its kind. */
export interface MemberFault {
  /** JSON Pointer within the step, such as `/prompt`. */
  readonly pointer: string
  readonly message: string
}

/** Who runs a kind of steps, as far as compilation needs it. */
export interface StepKind {
  check?(members: Readonly<Record<string, unknown>>): readonly MemberFault[]
}

/** The kinds that are run; a document with steps of another is refused. */
export type StepKinds = { readonly [kind in RunnerKind]?: StepKind }
