import Fastify from 'fastify'
import t from 'tap'
import { failure } from '../../../lib/errors.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createRepeatedFailures } from '../../../lib/log/repeated-failures.js'

function create (t: { teardown: (work: () => unknown) => void }) {
  const lines: { code?: string, failures?: number }[] = []
  const app = Fastify({
    logger: {
      stream: {
        write: (line: string) => {
          lines.push(JSON.parse(line))
        }
      }
    }
  })
  const failures = createRepeatedFailures(app.log)
  t.teardown(() => failures.close())
  return { lines, failures }
}

const refusedBy = (code: string) => Object.assign(new Error('no connection'), { code })

t.test('the first error of a kind is logged in full, and its repetitions are counted by code once a period', async (t) => {
  const { failures, lines } = create(t)
  const outage = () => failure('databaseUnavailable', { cause: refusedBy('ECONNREFUSED') })
  t.equal(failures.isFirst(outage(), tenantRef('acme')), true)
  for (let count = 0; count < 5; count++) {
    t.equal(failures.isFirst(outage(), tenantRef(count % 2 === 0 ? 'acme' : 'globex')), false, 'an outage is one kind for all tenants')
  }
  t.equal(failures.isFirst(failure('databaseUnavailable', { cause: refusedBy('57P01') }), tenantRef('acme')), true, 'another cause is another kind')
  t.equal(failures.isFirst(failure('providerFailed'), tenantRef('acme')), true, 'another code is another kind')
  t.equal(failures.isFirst(failure('providerFailed'), tenantRef('globex')), true, "failures of one tenant's provider do not hide those of another tenant's")
  t.equal(failures.isFirst(failure('providerFailed'), tenantRef('globex')), false)
  t.same(lines, [], 'nothing before the end of the period')
  failures.endPeriod()
  t.match(lines, [{ code: 'TENANTRY_DATABASE_UNAVAILABLE', failures: 5 }, { code: 'TENANTRY_PROVIDER_FAILED', failures: 1 }])
  t.equal(lines.length, 2)

  t.equal(failures.isFirst(outage(), tenantRef('acme')), false, 'an ongoing error is counted in the next period too')
  t.equal(failures.isFirst(failure('providerFailed'), tenantRef('acme')), true, 'an error without repetitions in the period is logged in full again')
  failures.endPeriod()
  t.match(lines.slice(2), [{ code: 'TENANTRY_DATABASE_UNAVAILABLE', failures: 1 }])
  failures.endPeriod()
  t.equal(lines.length, 3, 'a period without repetitions has no line')
  t.equal(failures.isFirst(outage(), tenantRef('acme')), true, 'the next outage starts with a full line')
})

t.test('unexpected errors of different places are different kinds', async (t) => {
  const { failures } = create(t)
  const one = () => failure('internal', { cause: new TypeError('x') })
  const other = () => failure('internal', { cause: new TypeError('x') })
  t.same([one, one, other, other].map((make) => failures.isFirst(make(), tenantRef('acme'))), [true, false, true, false])
})

t.test('a period logs a bounded number of kinds in full', async (t) => {
  const { failures, lines } = create(t)
  let whole = 0
  for (let tenant = 0; tenant < 3000; tenant++) if (failures.isFirst(failure('providerFailed'), tenantRef(`t${tenant}`))) whole++
  t.equal(whole, 1000)
  failures.endPeriod()
  t.match(lines, [{ code: 'TENANTRY_PROVIDER_FAILED', failures: 2000 }])
})
