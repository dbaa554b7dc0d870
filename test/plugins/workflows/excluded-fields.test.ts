/** Fields that steps exclude: stored workflows that read them. */
import { test } from 'tap'
import type { Step } from '../../../lib/schema/workflow.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, type Request } from '../../http/caller.js'

const tables: TestDocument['tables'] = {
  notes: {
    tenantScoped: true,
    columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' }, secret: { type: 'text' } }
  }
}
const find: Step = {
  id: 'find',
  type: 'database',
  operation: 'select',
  table: 'notes',
  single: true,
  filters: [{ column: 'id', value: 1 }]
}
const copy: Step = {
  id: 'copy',
  type: 'database',
  operation: 'insert',
  table: 'notes',
  condition: 'steps.find.result.secret != "x"',
  data: { id: 2, title: 'copied' }
}
const anna = { token: signToken({ sub: 'anna', role: 'user', tenant_id: 'a' }) }
const chief = { token: signToken({ sub: 'chief', role: 'admin', tenant_id: 'a' }) }

test('runs and saved documents of an earlier version go on, although a step reads an excluded field', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const sender = await testServer(t, { tables, workflows: [{ id: 'copy', steps: [find, copy] }], queue: { workers: 0 } }, { engine, tenants: ['a'] })
  const ask = caller(t, sender, anna)
  await query("insert into notes (tenant_id, id, title) values ('a', 1, 'first')")
  const saved = await caller(t, sender, chief)('POST /tenant/config', {
    body: { routes: [{ path: '/copies', method: 'post', workflow: { steps: [find, { ...copy, data: { id: 3, title: 'again' } }] } }] }
  })
  t.equal(saved.status, 200, saved.text)
  const { body: { workflowId } } = await ask('POST /agent/workflow/run', { body: { ref: 'copy' } })
  // As an earlier version stored them.
  const excluded = (text: string) => text.replaceAll('"single":true', '"single":true,"excludeFields":["secret"]')
  const [run] = await query('select definition from tenantry.workflow_runs')
  await query('update tenantry.workflow_runs set definition = $1', [excluded(String(run?.['definition']))])
  const [document] = await query('select document::text from tenantry.tenant_configs')
  await query('update tenantry.tenant_configs set document = $1::jsonb', [excluded(String(document?.['document']).replaceAll('": ', '":'))])
  t.match(await query('select definition from tenantry.workflow_runs'), [{ definition: /excludeFields/ }])
  t.match(await query('select document::text from tenantry.tenant_configs'), [{ document: /excludeFields/ }])

  const worker = caller(t, await testServer(t, { tables }, { engine }), anna)
  t.match(await worker('POST /copies'), { status: 200, body: { result: { id: 3, title: 'again' } } })
  const status = async () => (await worker(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body
  await until('the run ends', async () => !['queued', 'running'].includes(String((await status())['status'])))
  t.match(await status(), { status: 'completed', result: { id: 2, title: 'copied' } })
})

test('a run by name or from the body shows excluded fields to the same callers as a route', async (t) => {
  const steps: Step[] = [{ ...find, excludeFields: ['secret'] }]
  const document: TestDocument = {
    tables,
    workflows: [{ id: 'find', steps }],
    routes: [
      { path: '/found', method: 'post', workflow: { ref: 'find' } },
      { path: '/notes', method: 'post', queries: [{ table: 'notes', operation: 'insert' }] }
    ]
  }
  const token = (permissions: string[]) => signToken({ sub: 'anna', role: 'user', tenant_id: 'a', permissions: ['config:write', ...permissions] })
  const [user, dashboard] = [{ token: token([]) }, { token: token(['dashboard:use']) }]
  const naming = { tenant: 'a' }
  const cases: readonly (readonly [string, TestDocument, readonly (readonly [Request, boolean])[]])[] = [
    ['without a permission', {}, [[user, false], [{ ...user, ...naming }, true], [chief, true]]],
    [
      'with `tenancy.dashboardPermission`',
      { tenancy: { dashboardPermission: 'dashboard:use' } },
      [[dashboard, false], [{ ...user, ...naming }, false], [{ ...dashboard, ...naming }, true], [chief, true]]
    ]
  ]
  for (const [label, further, callers] of cases) {
    await t.test(label, async (t) => {
      const ask = caller(t, await testServer(t, { ...document, ...further }, { tenants: ['a'] }))
      t.equal((await ask('POST /notes', { ...chief, body: { id: 1, title: 'first', secret: 'hidden' } })).status, 201)
      for (const [asking, sees] of callers) {
        const shown = { result: { id: 1, secret: sees ? 'hidden' : undefined } }
        t.match((await ask('POST /found', asking)).body, shown, 'by a route')
        t.match((await ask('POST /agent/workflow/run', { ...asking, body: { ref: 'find', async: false } })).body, shown, 'by its name')
        t.match((await ask('POST /agent/workflow', { ...asking, body: { steps, async: false } })).body, shown, 'from the body')
        const { body: { statusUrl } } = await ask('POST /agent/workflow/run', { ...asking, body: { ref: 'find' } })
        const status = async () => (await ask(`GET ${String(statusUrl)}`, asking)).body
        await until('the run ends', async () => (await status())['status'] === 'completed')
        t.match(await status(), shown, 'as a job')
      }
    })
  }
})
