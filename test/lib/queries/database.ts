/** The library schema on a real engine: responses of compiled queries, and the resulting rows. */
import { type Test, test } from 'tap'
import type { Engine } from '../../../lib/database/engine.js'
import { createEngine } from '../../../lib/database/index.js'
import { TenantryError } from '../../../lib/errors.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { noTenant, platformRef } from '../../../lib/identity/tenant-ref.js'
import type { BoundQuery } from '../../../lib/queries/compiled-query.js'
import type { QueryContext } from '../../../lib/queries/index.js'
import { quote } from '../../../lib/queries/sql.js'
import type { DocumentQuery, Query } from '../../../lib/schema/query.js'
import { forEachEngine, type Row } from '../../helpers/postgres.js'
import { compile, compileDocument, scopeOf } from './helpers.js'
import { librarySql } from './tables.js'

const documentsSql = `
create schema if not exists tenantry;
create table if not exists tenantry.documents (tenant_id text not null, collection text not null, id text not null, data jsonb not null, created_at timestamptz not null default now(), updated_at timestamptz not null default now(), primary key (tenant_id, collection, id));
`

export class Library {
  constructor (readonly engine: Engine) {}

  /** Compiles against the database's own catalogue. */
  bind (query: Query, scope: Partial<Scope> = {}, changes: Partial<QueryContext> = {}): BoundQuery {
    return compile(query, { catalogue: this.engine.catalogue, ...changes }).bind(scopeOf(scope))
  }

  /** Runs the query and parses the response; null without a row. */
  async run (query: Query, scope: Partial<Scope> = {}, changes: Partial<QueryContext> = {}): Promise<unknown> {
    const { statement, values, finish = (text) => text } = this.bind(query, scope, changes)
    const text = await this.engine.text(statement, values, { tenant: scopeOf(scope).tenant?.id ?? noTenant })
    return this.#parse(text === null ? null : finish(text))
  }

  async runDocument (query: DocumentQuery, scope: Partial<Scope> = {}, changes: Partial<QueryContext> = {}): Promise<unknown> {
    const { statement, values } = compileDocument(query, { catalogue: this.engine.catalogue, ...changes }).bind(scopeOf(scope))
    return this.#parse(await this.engine.text(statement, values, { tenant: scopeOf(scope).tenant?.id ?? noTenant }))
  }

  /** The `data` of a page, reduced to one column. */
  async column (name: string, query: Query, scope: Partial<Scope> = {}, changes: Partial<QueryContext> = {}): Promise<unknown[]> {
    const page: unknown = await this.run(query, scope, changes)
    if (typeof page !== 'object' || page === null || !('data' in page) || !Array.isArray(page.data)) throw new Error('no page')
    return page.data.map((row: Row) => row[name])
  }

  sql (text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.engine.transaction({ tenant: platformRef }, (session) => session.rows({ text }, values))
  }

  #parse (text: string | null): unknown {
    return text === null ? null : JSON.parse(text)
  }
}

/** Runs the cases on each engine; each starts with the rows of `sql`. */
export function onEachEngine (sql: string, cases: Readonly<Record<string, (t: Test, library: Library) => Promise<void>>>): void {
  test('on each engine', t =>
    forEachEngine(t, async (t, database) => {
      const engine = await createEngine(database)
      t.teardown(() => engine.close())
      const library = new Library(engine)
      await runAll(library, `${documentsSql}${librarySql}`)
      await engine.refresh()
      const tables = [...engine.catalogue.tables.values()].filter(({ view }) => !view).map(({ name }) => quote(name))
      for (const [name, work] of Object.entries(cases)) {
        await runAll(library, `truncate tenantry.documents, ${tables.join(', ')} restart identity;\n${sql}`)
        await t.test(name, t => work(t, library))
      }
    }))
}

async function runAll (library: Library, sql: string): Promise<void> {
  for (const statement of sql.split(';\n')) {
    if (statement.trim() !== '') await library.sql(statement)
  }
}

/** The status and details of the error from a promise or a function. */
export async function refusalOf (work: Promise<unknown> | (() => unknown)): Promise<{ status: number, code: string, details?: unknown }> {
  try {
    await (typeof work === 'function' ? work() : work)
  } catch (error) {
    if (!(error instanceof TenantryError)) throw error
    const { details } = error.extras
    return { status: error.statusCode, code: error.code, ...(details !== undefined && { details }) }
  }
  throw new Error('it was not rejected')
}

/** Ids that differ by their number. */
export function uuid (number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`
}
