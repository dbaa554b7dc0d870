/** Declared types of SQL functions in a schema that is not in the `search_path`. */
import { test } from 'tap'
import { noTenant } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { openEngine } from '../database/open.js'
import { compile, scopeOf } from './helpers.js'

for (const schema of ['app', 'App']) {
  test(`types of the schema ${schema} are declared with its name or without it`, async (t) => {
    const { connectionString } = await postgresDatabase(t, {
      sql: `create schema "${schema}"
        create table moods (id integer primary key, mood text);
      create type "${schema}".mood as enum ('sad', 'happy');
      create type public.mood as enum ('other');
      insert into "${schema}".moods values (1, 'happy');
      create function "${schema}".found (wanted "${schema}".mood) returns setof "${schema}".moods stable language sql
        as $$ select * from "${schema}".moods where mood = wanted::text $$;
      create function "${schema}".twice (items "${schema}".mood[]) returns table (item "${schema}".mood, id integer) immutable language sql
        as $$ select unnest(items), 1 $$`
    })
    const engine = await openEngine(t, { provider: 'postgres', postgres: { connectionString, schema } })
    const catalogue = await engine.refresh()
    const name = schema === 'app' ? schema : `"${schema}"`
    for (const at of ['', `${name}.`]) {
      const functions = {
        found: { arguments: { wanted: `${at}mood` }, returns: `setof ${at}moods`, tenantScoped: false },
        twice: { arguments: { items: `${at}mood[]` }, returns: `TABLE(item ${at}mood, id integer)`, tenantScoped: false }
      }
      const call = async (called: string, values: object): Promise<unknown> => {
        const compiled = compile({ operation: 'call', function: called, arguments: { ...values } }, { catalogue, functions })
        const { statement, values: bound } = compiled.bind(scopeOf({}))
        return JSON.parse(await engine.text(statement, bound, { tenant: noTenant }) ?? 'null')
      }
      t.match(await call('found', { wanted: 'happy' }), { data: [{ id: 1, mood: 'happy' }] })
      t.match(await call('twice', { items: ['sad'] }), { data: [{ item: 'sad', id: 1 }] })
    }
    const other = { twice: { arguments: { items: 'other.mood[]' }, tenantScoped: false } }
    t.throws(() => compile({ operation: 'call', function: 'twice' }, { catalogue, functions: other }), /the argument has the type/)
  })
}
