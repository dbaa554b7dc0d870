import pg from 'pg'
import { type Test, test } from 'tap'
import { fillingMark } from '../../../lib/database/migrations/fill.js'
import type { MigrationProgress } from '../../../lib/database/migrations/migration.js'
import { literal } from '../../../lib/database/sql.js'
import { isFailure } from '../../../lib/errors.js'
import { nameAfterSystem } from '../../helpers/migrations.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine, rejection } from './open.js'

const patience = 4000 // ms, twice the statement timeout
const rows = 200 // of 2 kB, in two batches

/** A table with a column that an interrupted migration has added, but not filled. `trigger`: slows updates down. */
const sqlOf = (trigger: string) =>
  `create table notes (id int primary key, title text, key uuid);
  insert into notes select n, repeat('x', 1900) from generate_series(1, ${rows}) n;
  alter table notes alter key set default gen_random_uuid();
  comment on column notes.key is ${literal(fillingMark)};
  ${trigger}`

const slowly = (seconds: number) =>
  `create function slowly() returns trigger language plpgsql as 'begin perform pg_sleep(${seconds}); return new; end'`

test('a fill that makes no progress fails in time, and names the holder of the lock', async (t) => {
  const { open, free } = await lockedNotes(t, 1, `${slowly(1.2)}; create trigger slow before update on notes execute function slowly()`)
  const engine = await open()
  let waits = 0
  const failed = await rejection(engine.migration.apply(undefined, ({ state }) => {
    if (state === 'waiting' && ++waits === 10) free().catch(t.threw)
  }))
  t.ok(isFailure(failed, 'databaseBusy'))
  t.match(failed, { message: /did not get a lock of the table public\.notes within 4 s \(held by process \d+, idle in transaction\)/ })
})

test('a fill that has filled rows waits for a lock, though its time was up', async (t) => {
  const slow = `${slowly(patience / 1000 + 0.2)};
    create trigger slow before update on notes for each row when (new.id = 1) execute function slowly()`
  const { open, free, query } = await lockedNotes(t, rows, slow)
  const engine = await open()
  let freed: Promise<unknown> | undefined
  const onProgress = ({ state }: MigrationProgress) => {
    if (state === 'waiting') freed ??= free()
  }
  t.strictSame(await engine.migration.apply(undefined, onProgress), [nameAfterSystem('alter_notes')])
  t.ok(freed !== undefined)
  await freed
  t.strictSame(await query('select count(distinct key)::int as keys from notes'), [{ keys: rows }])
})

/** Another session locks the row of the table. */
async function lockedNotes (t: Test, id: number, trigger: string) {
  const { connectionString, query } = await postgresDatabase(t, { sql: sqlOf(trigger) })
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query(`begin; select from notes where id = ${id} for update`)
  return {
    query,
    free: () => holder.query('rollback'),
    open: () =>
      openEngine(t, {
        provider: 'postgres',
        migrate: 'manual',
        postgres: { connectionString, pool: { statementTimeoutMs: patience / 2 } },
        tables: {
          notes: {
            columns: {
              id: { type: 'integer', primaryKey: true },
              title: { type: 'text' },
              key: { type: 'uuid', default: 'uuid()' }
            }
          }
        }
      })
  }
}
