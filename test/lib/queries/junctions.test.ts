/** Embeds through junction tables that have several foreign keys to one table. */
import { test } from 'tap'
import { noTenant } from '../../../lib/identity/tenant-ref.js'
import { onEachEngine, run } from '../database/open.js'
import { compile, faultsOf, scopeOf } from './helpers.js'

test('an embed through a junction with several keys to one table names the key to the embedded row', (t) =>
  onEachEngine(t, async (t, engine) => {
    await run(
      engine,
      'create table users (id integer primary key, name text not null)',
      'create table films (id integer primary key, title text not null)',
      'create table follows (follower_id integer references users, followed_id integer references users, primary key (follower_id, followed_id))',
      `create table credits (film_id integer references films, author_id integer references users, editor_id integer references users,
        primary key (film_id, author_id, editor_id))`,
      "insert into users values (1, 'Ada'), (2, 'Bob'), (3, 'Cy')",
      "insert into films values (1, 'Ferry')",
      'insert into follows values (1, 2), (1, 3), (2, 3)',
      'insert into credits values (1, 2, 3)'
    )
    const catalogue = await engine.refresh()
    const read = async (table: string, select: string): Promise<unknown> => {
      const { statement, values } = compile({ table, operation: 'select', select, order: { column: 'id' } }, { catalogue }).bind(scopeOf())
      return JSON.parse(await engine.text(statement, values, { tenant: noTenant }) ?? 'null').data
    }
    t.strictSame(await read('users', 'name, followed:users!followed_id(name), followers:users!follows_follower_id_fkey(name)'), [
      { name: 'Ada', followed: [{ name: 'Bob' }, { name: 'Cy' }], followers: [] },
      { name: 'Bob', followed: [{ name: 'Cy' }], followers: [{ name: 'Ada' }] },
      { name: 'Cy', followed: [], followers: [{ name: 'Ada' }, { name: 'Bob' }] }
    ])
    t.strictSame(await read('films', 'authors:users!author_id(name), editors:users!editor_id(name)'), [
      { authors: [{ name: 'Bob' }], editors: [{ name: 'Cy' }] }
    ])
    t.strictSame(await read('users', 'written:films!author_id(title), edited:films!credits_editor_id_fkey(title)'), [
      { written: [], edited: [] },
      { written: [{ title: 'Ferry' }], edited: [] },
      { written: [], edited: [{ title: 'Ferry' }] }
    ])

    const several = '/q/select: several foreign keys connect "users" and "users": write one of '
    const choices = '`users!follows_followed_id_fkey` (many), `users!credits_editor_id_fkey` (many)'
    const [fault = ''] = faultsOf({ table: 'users', operation: 'select', select: 'users(name)' }, { catalogue })
    t.ok(fault.startsWith(several), fault)
    for (const choice of choices.split(', ')) t.ok(fault.includes(choice), choice)
    for (const hint of [...fault.matchAll(/`(users![^`]+)`/g)].map(([, choice]) => String(choice))) {
      t.strictSame(faultsOf({ table: 'users', operation: 'select', select: `${hint}(name)` }, { catalogue }), [], hint)
    }
    const [byJunction = ''] = faultsOf({ table: 'films', operation: 'select', select: 'users!credits(name)' }, { catalogue })
    t.equal(
      byJunction,
      '/q/select: several foreign keys connect "films" and "users": write one of `users!credits_author_id_fkey` (many), `users!credits_editor_id_fkey` (many)'
    )
  }))
