import type { Test } from 'tap'
import { test } from 'tap'
import type { Engine, Statement } from '../../../lib/database/engine.js'
import { maxCharacters, maxStatements, TextExchange } from '../../../lib/database/wire-query.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { onEachEngine, openEngine, rejection, run, withoutTenant } from './open.js'

/** One connection, so that its prepared statements can be inspected through it. */
async function openOne (t: Test): Promise<Engine> {
  const { connectionString } = await postgresDatabase(t)
  return openEngine(t, { provider: 'postgres', postgres: { connectionString, pool: { max: 1 } }, migrate: 'manual' })
}

/** The names of the server's prepared statements, in order. */
async function preparedIn (engine: Engine): Promise<string[]> {
  const names = await engine.text({ text: "select string_agg(name, ',' order by name) from pg_prepared_statements" }, [], withoutTenant)
  return names === null ? [] : names.split(',')
}

/** Returns its number, unless it is asked to divide by zero. */
function numbered (prefix: string, number: number): Statement {
  return { name: `${prefix}${number}`, text: `select (${number} / $1::int)::text` }
}

async function use (engine: Engine, statement: Statement, times: number, divisor = 1): Promise<(string | null)[]> {
  const results: (string | null)[] = []
  for (let time = 0; time < times; time++) results.push(await engine.text(statement, [divisor], withoutTenant).catch(() => 'failed'))
  return results
}

test('a statement is prepared on its third use', (t) =>
  onEachEngine(t, async (t, engine) => {
    const statement = numbered('third_', 7)
    t.strictSame(await use(engine, statement, 2), ['7', '7'])
    t.notOk((await preparedIn(engine)).includes('third_7'))
    t.strictSame(await use(engine, statement, 2), ['7', '7'])
    t.ok((await preparedIn(engine)).includes('third_7'))
  }))

test('statements that are used once are neither prepared nor evict others', async (t) => {
  const engine = await openOne(t)
  await use(engine, numbered('t_hot', 0), 3)
  const asked = numbered('t_asked', 0)
  await use(engine, asked, 2)
  for (let number = 0; number < maxStatements; number++) await use(engine, numbered('t_', number), 1)
  t.strictSame(await preparedIn(engine), ['t_hot0'])
  await use(engine, asked, 1)
  t.strictSame(await preparedIn(engine), ['t_hot0'], 'old uses do not count')
})

test("a tenant with too many statements evicts neither the platform's nor those in use", async (t) => {
  const engine = await openOne(t)
  const [platform, cold, hot] = [numbered('p_', 1), numbered('t_cold', 2), numbered('t_hot', 3)]
  for (const each of [platform, cold, hot]) await use(engine, each, 3)
  for (let number = 0; number < maxStatements; number++) {
    // Half of them fail on every run: those must not stay in the server untracked either.
    await use(engine, numbered('t_', number), 3, number % 2)
    if (number % 100 === 0) await use(engine, hot, 1)
  }
  const names = await preparedIn(engine)
  t.equal(names.length, maxStatements + 1)
  t.ok(names.includes('p_1'))
  t.ok(names.includes('t_hot3'))
  t.notOk(names.includes('t_cold2'))

  // In a failed transaction nothing can be prepared, and the server skips the remaining messages.
  const late = numbered('t_late', 4)
  await use(engine, late, 2)
  await t.rejects(
    engine.transaction(withoutTenant, async (session) => {
      await session.text(hot, [0]).catch(() => {})
      await session.text(late, [1])
    }),
    { code: '25P02' }
  )
  t.equal((await preparedIn(engine)).length, maxStatements)
  for (
    const [statement, expected] of [[late, '4'], [numbered('t_', 1), '1'], [numbered('t_', 996), '996'], [hot, '3'], [cold, '2']] as const
  ) {
    t.strictSame(await use(engine, statement, 3), [expected, expected, expected], `${statement.name} returns its own number`)
  }
  t.equal((await preparedIn(engine)).length, maxStatements + 1)
})

test('a long statement takes the space of many, and none takes more than a tenth of it', async (t) => {
  const engine = await openOne(t)
  const long = (number: number, length: number): Statement => ({
    name: `t_${number}`,
    text: `select ($1::int * ${number})::text`.padEnd(length)
  })
  for (let number = 0; number < 15; number++) await use(engine, long(number, maxCharacters / 12), 3)
  const names = await preparedIn(engine)
  t.equal(names.length, 12)
  t.ok(names.includes('t_14'))
  t.strictSame(await use(engine, long(20, maxCharacters / 10 + 1), 4), ['20', '20', '20', '20'])
  t.strictSame(await preparedIn(engine), names)
})

test('a statement name never refers to another text, even after failures', (t) =>
  onEachEngine(t, async (t, engine) => {
    const [one, two] = [{ name: 't_q', text: 'select (1 / $1::int)::text' }, { name: 't_q', text: 'select (2 / $1::int)::text' }]
    t.strictSame(await use(engine, one, 3), ['1', '1', '1'])
    t.strictSame(await use(engine, two, 2), ['2', '2'])
    t.strictSame(await use(engine, one, 1, 0), ['failed'], 'prepared again, and failed when it ran')
    t.strictSame(await use(engine, two, 1), ['2'])
    t.strictSame(await use(engine, one, 2), ['1', '1'])

    await rejection(engine.transaction(withoutTenant, async (session) => {
      await session.text({ text: 'select 1 / 0' }, []).catch(() => {})
      // Rejected: the server still has the old text.
      await session.text(two, [1]).catch(() => {})
    }))
    t.strictSame(await use(engine, one, 1), ['1'])
    t.strictSame(await use(engine, two, 1), ['2'])
  }))

test('statements that another user of the session prepared or closed cause no failure', async (t) => {
  const engine = await openOne(t)
  await run(engine, "prepare t_1 as select 'theirs'")
  t.strictSame(await use(engine, numbered('t_', 1), 4), ['1', '1', '1', '1'])
  await run(engine, 'deallocate all')
  t.strictSame(await use(engine, numbered('t_', 1), 2), ['1', '1'])
  t.strictSame(await preparedIn(engine), ['t_1'])
})

test('a statement whose connection is lost before its turn took no time', (t) => {
  const took: number[] = []
  const exchange = new TextExchange([{ text: 'select 1', values: [] }], undefined, (_error, _value, ms) => took.push(ms))
  exchange.handleError(new Error('Connection terminated'))
  t.strictSame(took, [0])
  t.end()
})
