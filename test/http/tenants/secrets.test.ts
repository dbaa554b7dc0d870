/** Secrets in the database: a row that was copied or altered reveals no value. */
import { type Test, test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { caller } from '../caller.js'
import { createWorld, platformDocument, type Routes, save, tokenOf } from './world.js'

const value = secretText("the value that is the victim's")
const routes: Routes = [{
  method: 'post',
  path: '/use',
  queries: [{ table: 'notes', operation: 'insert', data: { title: '{{secret:KEY}}', body: '{{secret:OTHER}}' } }]
}]

/** The response of a server that reads the rows for the first time after this SQL has altered them. */
type AfterTampering = (sql: string) => Promise<string>

/** Both tenants store KEY and OTHER, which are restored before each alteration. */
async function storing (t: Test): Promise<AfterTampering> {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const { attacker, victim } = await createWorld(t, { engine })
  for (const [ask, mine] of [[victim, value], [attacker, secretText("the value that is the attacker's")]] as const) {
    await save(t, ask, routes)
    for (const key of ['KEY', 'OTHER']) {
      t.match(await ask('POST /tenant/secrets', { body: { key, value: `${mine} ${key}` } }), { status: 201 })
    }
  }
  await query('create table stored as table tenantry.secrets')
  return async (sql) => {
    await query(
      `delete from tenantry.secrets; insert into tenantry.secrets select * from stored; delete from notes where tenant_id = 'attacker'; ${sql}`
    )
    const other = await testServer(t, platformDocument, { engine })
    const ask = caller(t, other, { token: tokenOf('attacker') })
    const texts: string[] = []
    for (const target of ['POST /use', 'GET /tenant/secrets', 'GET /tenant/secrets/audit']) {
      texts.push((await ask(target, target.startsWith('POST') ? { body: {} } : {})).text)
    }
    const [row] = await query("select json_agg(notes)::text as notes from notes where tenant_id = 'attacker'")
    return texts.join() + String(row?.['notes'])
  }
}

test('an altered secret row', async (t) => {
  const afterTampering = await storing(t)
  await t.test("a secret copied to another tenant's row cannot be read", (t) => ofAnother(t, afterTampering))
  await t.test("a secret copied to another key's row, from an older version, or with changed bytes cannot be read", (t) => ofItsOwn(t, afterTampering))
})

async function ofAnother (t: Test, afterTampering: AfterTampering): Promise<void> {
  const stolen = "from tenantry.secrets v where v.tenant_id = 'victim' and v.key = 'KEY' and s.tenant_id = 'attacker'"
  for (
    const [label, sql] of [
      ["the victim's value", `update tenantry.secrets s set value = v.value ${stolen} and s.key = 'KEY'`],
      [
        "the victim's value and its version",
        `update tenantry.secrets s set value = v.value, version = v.version, created_at = v.created_at ${stolen} and s.key = 'KEY'`
      ],
      [
        "the victim's value as the previous one",
        `update tenantry.secrets s set previous_value = v.value, previous_version = v.version, previous_valid_until = now() + interval '1 day' ${stolen} and s.key = 'KEY'`
      ],
      [
        "the victim's row",
        "delete from tenantry.secrets where tenant_id = 'attacker'; update tenantry.secrets set tenant_id = 'attacker' where tenant_id = 'victim'"
      ]
    ] as const
  ) t.notMatch(await afterTampering(sql), value, label)
}

async function ofItsOwn (t: Test, afterTampering: AfterTampering): Promise<void> {
  const own = "the value that is the attacker's"
  t.match(await afterTampering('select'), `"title":"${own} KEY"`, 'the unaltered secret can be read')
  t.notMatch(
    await afterTampering(
      "update tenantry.secrets s set value = o.value from tenantry.secrets o where o.tenant_id = 'attacker' and o.key = 'OTHER' and s.tenant_id = 'attacker' and s.key = 'KEY'; update notes set title = 'x'"
    ),
    `"title":"${own} OTHER"`
  )
  for (
    const sql of [
      "update tenantry.secrets set version = version + 1 where tenant_id = 'attacker'",
      "update tenantry.secrets set value = set_byte(value, length(value) - 1, 255 - get_byte(value, length(value) - 1)) where tenant_id = 'attacker'",
      "update tenantry.secrets set value = substring(value for 10) where tenant_id = 'attacker'",
      "update tenantry.secrets set value = ''::bytea where tenant_id = 'attacker'"
    ]
  ) t.notMatch(await afterTampering(sql), `"title":"${own}`, sql)
}
