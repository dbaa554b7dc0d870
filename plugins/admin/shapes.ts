/**
 * Queries by shape. Callers' values are read by reference and never become text. The rest, the table, the columns with their operators, the
 * order and the members, is compiled once and cached.
 */
import { LRUCache } from 'lru-cache'
import type { Engine } from '../../lib/database/engine.js'
import { failure, TenantryError } from '../../lib/errors.js'
import type { Scope, TemplateSource } from '../../lib/expressions/types.js'
import { isRecord } from '../../lib/json/plain-value.js'
import type { BoundQuery, CompiledQuery } from '../../lib/queries/compiled-query.js'
import type { QueryContext } from '../../lib/queries/context.js'
import { compileQuery } from '../../lib/queries/index.js'
import { type Fault, FaultList } from '../../lib/schema/faults.js'
import type { Query } from '../../lib/schema/query.js'
import { type Reach, viewOf } from './reach.js'

const maxShapes = 500 // of all callers
const maxKeptText = 16_384 // characters of SQL; longer ones are compiled each time
const maxDetails = 20

/** A shape: requests of one shape differ in values only. */
export interface Shape {
  readonly reach: Reach
  /** Includes rows that are marked as deleted. */
  readonly includeDeleted: boolean
  readonly query: Query
}

/** A query of a shape with the values of one request. */
export interface ShapeQuery {
  readonly compiled: CompiledQuery
  readonly bound: BoundQuery
}

/** The place in the request of a member of the query, or of a value that it reads: JSON Pointers by JSON Pointers. */
export type Places = (pointer: string) => string

const sources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['body', 'params', 'query'])
/** Every list has a page, which the endpoint has bounded. */
const pagination = { defaultLimit: 1, maxLimit: Number.MAX_SAFE_INTEGER, defaultOffset: 0 }

/** @param deletesFiles  files of deleted rows are deleted too */
export function createShapes (engine: Pick<Engine, 'catalogue'>, deletesFiles: () => boolean) {
  const known = new LRUCache<string, CompiledQuery>({ max: maxShapes })
  let { catalogue } = engine

  function compile ({ reach, includeDeleted, query }: Shape, places: Places): CompiledQuery {
    const faults = new FaultList()
    const view = viewOf(catalogue, reach, includeDeleted)
    const compiled = compileQuery(query, '', {
      faults,
      sources,
      env: {},
      catalogue: view,
      pagination,
      callerPages: true,
      excludeFields: [],
      softDelete: { enabled: query.operation === 'delete' && !includeDeleted },
      // The view contains only readable tables.
      sharedTables: new Set(view.tables.keys()),
      deletesFiles: deletesFiles(),
      origin: originOf(query, view)
    })
    if (compiled === null) {
      throw failure('validationFailed', { extras: { details: faults.faults.slice(0, maxDetails).map((fault) => detailOf(fault, places)) } })
    }
    return compiled
  }

  return {
    /** Throws `validationFailed` for unknown columns, or a value that does not fit its column; and `tenantRequired`. */
    bind (shape: Shape, scope: Scope, places: Places): ShapeQuery {
      if (engine.catalogue !== catalogue) {
        known.clear()
        ;({ catalogue } = engine)
      }
      const key = JSON.stringify([shape.reach, shape.includeDeleted, shape.query])
      const kept = known.get(key)
      const compiled = kept ?? compile(shape, places)
      try {
        const bound = compiled.bind(scope)
        if (kept === undefined && bound.statement.text.length <= maxKeptText) known.set(key, compiled)
        return { compiled, bound }
      } catch (error) {
        throw placed(error, places)
      }
    }
  }
}

/**
 * Callers choose shapes, so their statements use the room of tenants' statements and cannot displace the platform's; and their embeds are
 * bounded. Writes to tables without tenants are the platform's, one or two for each table.
 */
function originOf ({ operation, table = '' }: Query, { tables }: QueryContext['catalogue']): QueryContext['origin'] {
  return operation === 'select' || tables.get(table)?.tenantScoped === true ? 'tenant' : 'platform'
}

function detailOf ({ pointer, message, suggestion }: Fault, places: Places) {
  return {
    path: places(pointer),
    message: suggestion === undefined ? message : `${message}, did you mean "${suggestion}"?`,
    keyword: 'pattern'
  }
}

/** A value that does not fit its column, with its place in the request. */
function placed (error: unknown, places: Places): unknown {
  if (!(error instanceof TenantryError) || !Array.isArray(error.extras['details'])) return error
  const details = error.extras['details'].map((detail: unknown) =>
    isRecord(detail) && typeof detail['path'] === 'string' ? { ...detail, path: places(detail['path']) } : detail
  )
  return failure('validationFailed', { extras: { details } })
}
