/** A compiled workflow: plain frozen data with closures, without I/O. */
import type { TableUse } from '../cache/store.js'
import type { CompiledCall } from '../connectors/types.js'
import type { Condition, ReportFault } from '../expressions/condition.js'
import type { ExpansionGuard } from '../expressions/expansion-guard.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import type { CompiledQuery } from '../queries/compiled-query.js'
import type { Callback, Step } from '../schema/workflow.js'

/** The declared workflow: plain JSON, which compiles again with current tables and connectors. */
export interface WorkflowDefinition {
  /** For a named one the target of `ref`; for an inline one its `id`, if it has one. */
  readonly id?: string
  /** Its steps read `input` and other steps, not the request: it is one of the document's `workflows`. */
  readonly named: boolean
  readonly steps: readonly Step[]
  readonly webhookOnComplete?: Callback
}

/** The parts of the request that a workflow reads, without secrets, which each process reads again. */
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

export interface CompiledCallback {
  readonly url: CompiledValue
  /** The declared address, for the log, if it reads settings or secrets; null otherwise. */
  readonly shownUrl: string | null
  /** null: the tenant's generated secret signs. */
  readonly secret: CompiledValue | null
  /** Measures the copies of both, as for a step. */
  readonly expansionGuard: ExpansionGuard | null
  /** The address is fixed in the platform's document. */
  readonly trusted: boolean
}

export interface CompiledWorkflow {
  readonly id: string | null
  readonly definition: WorkflowDefinition
  readonly origin: 'platform' | 'tenant'
  /** In the order of the list, without targets of switches. */
  readonly steps: readonly CompiledStep[]
  /** All of them in the order of the document, with nested steps and targets of switches. */
  readonly stepIds: readonly string[]
  /** Steps whose result or error is read: results are parsed for these. */
  readonly readSteps: ReadonlySet<string>
  readonly sources: ReadSources
  /** Everything that it reads of a scope. */
  readonly references: readonly Reference[]
  /** The keys of the secrets that it can read, without duplicates. */
  readonly secrets: readonly string[]
  /** Those that serve only as overrides of settings. */
  readonly optionalSecrets: ReadonlySet<string>
  /** A query reads or writes a tenant-scoped table. */
  readonly tenantScoped: boolean
  readonly calls: boolean
  /** Steps may call tools, with the rights of the run's caller. */
  readonly usesTools: boolean
  readonly timed: boolean
  /** Steps wait for more than the database: for other services, for other plugins, or before a retry. */
  readonly waits: boolean
  /** The tables that its queries read and write, without duplicates. */
  readonly reads: readonly TableUse[]
  readonly writes: readonly TableUse[]
  readonly callback: CompiledCallback | null
}

interface StepBase {
  readonly id: string
  /** Whether it runs; null: always. An error counts as false. */
  readonly condition: Condition | null
  /** The total number of tries. */
  readonly attempts: number
  /** Milliseconds before the second try; each further wait is twice as long. */
  readonly backoffMs: number
  /** The time limit of one try; null: unlimited. */
  readonly timeoutMs: number | null
  /** The workflow continues after its failure. */
  readonly continues: boolean
  /** Measures the copies of its templates before they are evaluated; null if they are always few. */
  readonly expansionGuard: ExpansionGuard | null
}

export interface DatabaseStep extends StepBase {
  readonly kind: 'database'
  readonly query: CompiledQuery
}

export interface IntegrationStep extends StepBase {
  readonly kind: 'integration'
  readonly call: CompiledCall
}

/** A kind of step of another plugin. */
export type RunnerKind = 'llm' | 'embeddings' | 'storage' | 'realtime'

export interface RunnerStep extends StepBase {
  readonly kind: RunnerKind
  /** Its members, such as `prompt` and `model`, by name. */
  readonly members: CompiledValue
}

export interface SwitchStep extends StepBase {
  readonly kind: 'switch'
  /** Chooses the step; undefined if the value cannot be computed. */
  readonly value: (scope: Scope, report: ReportFault) => unknown
  readonly cases: ReadonlyMap<string, CompiledStep>
  readonly fallback: CompiledStep | null
}

export interface ParallelStep extends StepBase {
  readonly kind: 'parallel'
  readonly steps: readonly CompiledStep[]
}

export type CompiledStep = DatabaseStep | IntegrationStep | RunnerStep | SwitchStep | ParallelStep

/** Faults of a step's members, found by the runner of its kind. */
export interface MemberFault {
  /** JSON Pointer within the step, such as `/prompt`. */
  readonly pointer: string
  readonly message: string
}

/** The runner of a kind of step, for the compiler. */
export interface StepKind {
  /** The destination of the members, if secrets are forbidden there. Default: secrets are allowed. */
  readonly secretsRefusedIn?: string
  check?(members: Readonly<Record<string, unknown>>): readonly MemberFault[]
}

/** The available kinds; a document with other steps is refused. */
export type StepKinds = { readonly [kind in RunnerKind]?: StepKind }
