/** The documents with workflows, of the platform and of tenants, and their workflows, compiled on demand. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { routeSources } from '../../lib/compiler/route-parts.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import { type Owner, platformRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { FaultList } from '../../lib/schema/faults.js'
import type { Workflow } from '../../lib/schema/workflow.js'
import { everyStep } from '../../lib/workflows/flow.js'
import type { CompiledWorkflow, WorkflowContext, WorkflowDefinition } from '../../lib/workflows/index.js'
import { compileWorkflow, definitionOf, storedIn } from '../../lib/workflows/index.js'
import { readDefinition } from './serialization.js'

const maxCharacters = 2_097_152 // of the definitions whose compiled workflows are cached, at up to about 30 bytes per character

/** The workflows of a document. A new object after each change of the document. */
export interface WorkflowDocument {
  readonly workflows: readonly Workflow[]
  readonly context: (tables: Catalogue) => Omit<WorkflowContext, 'faults'>
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly workflows: TenantWorkflows
  }
}

/** Reads a tenant's last saved document; synchronous if it is cached. */
export type TenantWorkflows = (tenant: Owner) => WorkflowDocument | Promise<WorkflowDocument>

export type Documents = ReturnType<typeof createDocuments>

interface Compiled {
  readonly document: WorkflowDocument
  readonly tables: Catalogue
  readonly workflow: CompiledWorkflow | null
}

/** The sources of any route: an inline workflow was checked in its route. */
const inline = Object.freeze({ sources: new Set([...routeSources, 'payload', 'files'] as const) })

/** @param tenants null if tenants have no documents */
export function createDocuments (platform: WorkflowDocument, tenants: () => TenantWorkflows | null, catalogue: () => Catalogue) {
  const known = new LRUCache<string, Compiled>({ maxSize: maxCharacters })

  async function documentOf (tenant: Owner, origin: CompiledWorkflow['origin']): Promise<WorkflowDocument> {
    if (origin === 'platform') return platform
    return await tenants()?.(tenant) ?? { workflows: [], context: platform.context }
  }

  /** A workflow that was checked before. */
  function compile (owner: Owner, text: string, definition: WorkflowDefinition, document: WorkflowDocument): CompiledWorkflow | null {
    const tables = catalogue()
    const key = createHash('sha256').update(`${owner} `).update(text).digest('base64')
    const found = known.get(key)
    if (found !== undefined && found.document === document && found.tables === tables) return found.workflow
    const context = { ...storedIn(document.context(tables)), checked: true, faults: new FaultList() }
    const workflow = compileWorkflow(definition, '', context, definition.named ? undefined : inline)
    known.set(key, { document, tables, workflow }, { size: text.length + 1 })
    return workflow
  }

  return {
    /** The tenant's workflows, then the platform's with other names. Empty tenant: only the platform's. */
    async list (tenant: Owner) {
      const { workflows } = tenant === platformRef ? { workflows: [] } : await documentOf(tenant, 'tenant')
      const own = new Set(workflows.map(({ id }) => id))
      return [
        ...workflows.map((workflow) => listed(workflow, 'tenant')),
        ...platform.workflows.filter(({ id }) => !own.has(id)).map((workflow) => listed(workflow, 'platform'))
      ]
    },

    /** The tenant's workflow with this id, else the platform's. */
    async find (tenant: Owner, id: string) {
      const documents = tenant === platformRef ? [platform] : [await documentOf(tenant, 'tenant'), platform]
      for (const document of documents) {
        const workflow = document.workflows.find((one) => one.id === id)
        if (workflow === undefined) continue
        const definition = definitionOf(workflow)
        const owner = document === platform ? platformRef : tenant
        return {
          schedule: workflow.schedule,
          requiredPermissions: workflow.requiredPermissions ?? [],
          /** null if the workflow no longer fits the tables. */
          compiled: () => compile(owner, stringifyJson(definition), definition, document)
        }
      }
      return undefined
    },

    /**
     * The stored workflow of a run, compiled against the current tables and connectors; null if they no longer fit. Without its steps only
     * the callback at its end is left.
     */
    async stored (tenant: Owner, text: string, hasSteps = true): Promise<CompiledWorkflow | null> {
      const { origin, definition } = readDefinition(text)
      const kept = hasSteps ? definition : { ...definition, steps: [] }
      const document = await documentOf(tenant, origin)
      return compile(origin === 'tenant' ? tenant : platformRef, hasSteps ? text : stringifyJson(kept), kept, document)
    },

    /** The workflow from a tenant's text, with all limits of a document. null after it has added faults. */
    async own (tenant: Owner, definition: WorkflowDefinition, pointer: string, faults: FaultList): Promise<CompiledWorkflow | null> {
      const document = await documentOf(tenant, 'tenant')
      return compileWorkflow(definition, pointer, { ...document.context(catalogue()), checked: false, faults })
    }
  }
}

function listed ({ id, steps }: Workflow, source: CompiledWorkflow['origin']) {
  return { id, source, steps: [...everyStep(steps)].length }
}
