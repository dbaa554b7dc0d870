/** The SQL and the document of the page, from an existing schema to a served one. */
import { test } from 'tap'
import { createEngine } from '../../lib/database/index.js'
import { postgresServer } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { blocksOf, page } from './markdown.js'

const blocks = blocksOf(page('docs/recipes/existing-database.md'))
const textsOf = (mark: string) => blocks.filter(({ words }) => words.includes(mark)).map(({ text }) => text).join('\n')

const rows = `
  insert into clinic.patients (clinic_id, "fullName") values ('north', 'Ada'), ('south', 'Bo');
  insert into clinic.invoices (clinic_id, patient_id, total) values ('north', 1, 10), ('south', 2, 99);
  insert into clinic.invoice_lines values (1, 1, 10), (2, 1, 99)`

test('an existing schema is served to tenants, by a role without further rights', async (t) => {
  const { query, connectionString } = await postgresServer(t)
  const as = (role: string) => connectionString.replace('//postgres:postgres@', `//${role}:${role}@`)
  await query('create role clinics login; grant create on database postgres to clinics')
  const asOwner = (text: string) => query(`set role clinics; ${text}`)
  await asOwner(textsOf('before') + rows)
  await asOwner(textsOf('change'))

  const owner = await createEngine({ provider: 'postgres', postgres: { connectionString: as('clinics'), schema: 'clinic' } })
  await owner.migration.apply()
  t.strictSame((await owner.migration.plan()).warnings, [])
  await owner.close()
  await query(textsOf('grants'))

  const { postgres, databaseProvider: provider, ...document } = JSON.parse(textsOf('existing'))
  const app = await testServer(t, document, { engine: { provider, postgres: { ...postgres, connectionString: as('api') } } })
  const get = async (url: string) => (await app.inject({ url, headers: bearer({ tenant_id: 'north' }) })).json()
  t.match(await get('/patients'), {
    data: [{ id: 1, fullName: 'Ada', invoices: [{ id: 1, total: 10, lines: [{ pos: 1, amount: 10 }] }] }],
    pagination: { total: 1 }
  })
  t.match(await get('/balances'), { data: [{ tenant_id: 'north', total: 10 }], pagination: { total: 1 } })
  t.match(await get('/invoices/1/lines/1'), { amount: 10 })
  t.match(await get('/invoices/2/lines/1'), { code: 'TENANTRY_NOT_FOUND' })
  const write = async (patient: number) =>
    (await app.inject({ method: 'POST', url: '/invoices', headers: bearer({ tenant_id: 'north' }), payload: { patient_id: patient } })).json()
  t.match(await write(1), { id: Number, patient_id: 1 })
  for (const patient of [2, 3]) {
    t.match(await write(patient), {
      code: 'TENANTRY_CONSTRAINT_VIOLATED',
      details: [{ path: '/body/patient_id', message: 'the reference by patient_id in invoices would have no matching row' }]
    }, "another tenant's patient is as a missing one")
  }
})
