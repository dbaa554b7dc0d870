/** Patterns on columns whose collation finds different texts equal. */
import { test } from 'tap'
import type { Query } from '../../../lib/schema/query.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine, withoutTenant } from '../database/open.js'
import { compile, faultsOf, scopeOf } from './helpers.js'
import { catalogueOf, table } from './tables.js'

const refusal = (operator: string, column: string): string =>
  `/q/filters/0/operator: PostgreSQL has no \`${operator}\` for "${column}", whose collation is nondeterministic: ` +
  'use `eq`, or `like` with PostgreSQL 18 or later'

function filtered (operator: 'eq' | 'like' | 'ilike' | 'is', column: string, value: string | null = '{{query.v}}'): Query {
  return { table: 'words', operation: 'select', select: 'id', filters: [{ column, operator, value }] }
}

test('a pattern that the database cannot match with the collation of a column is a fault', async (t) => {
  const { connectionString } = await postgresDatabase(t, {
    sql: `create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create domain word as text collate nocase;
      create table words (id int primary key, own text collate nocase, short varchar(5) collate nocase, word word,
        many text[] collate nocase, plain text, fixed text collate "C");
      insert into words values (1, 'Ab', 'Ab', 'Ab', '{Ab}', 'Ab', 'Ab'), (2, 'x', 'x', 'x', '{x}', 'x', 'x')`
  })
  const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString } })
  const { catalogue } = engine
  const find = async (query: Query, v: string): Promise<unknown> => {
    const { statement, values } = compile(query, { catalogue }).bind(scopeOf({ query: { v } }))
    return JSON.parse(await engine.text(statement, values, withoutTenant) ?? 'null')
  }
  const first = { data: [{ id: 1 }] }
  for (const column of ['own', 'short', 'word', 'many']) {
    t.strictSame(faultsOf(filtered('ilike', column), { catalogue }), [refusal('ilike', column)])
    t.strictSame(faultsOf(filtered('is', column, null), { catalogue }), [], column)
    t.match(await find(filtered('like', column), '%B%'), first, `the database has \`like\` for ${column}`)
  }
  t.match(await find(filtered('eq', 'own'), 'aB'), first)
  for (const column of ['plain', 'fixed']) t.match(await find(filtered('ilike', column), 'aB'), first, column)
})

test('a `like` before PostgreSQL 18 on a column with a nondeterministic collation is a fault', async (t) => {
  const words = table('words', ['id integer!', 'own text'])
  const own = words.columns.get('own')
  if (own === undefined) throw new Error('no column')
  const columns = new Map([...words.columns, ['own', { ...own, nondeterministic: true, withoutLike: true } as const]])
  const catalogue = catalogueOf({ ...words, columns })
  for (const operator of ['like', 'ilike'] as const) {
    t.strictSame(faultsOf(filtered(operator, 'own'), { catalogue }), [refusal(operator, 'own')])
  }
  t.strictSame(faultsOf(filtered('eq', 'own'), { catalogue }), [])
})
