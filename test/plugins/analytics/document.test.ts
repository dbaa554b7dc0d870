import t from 'tap'
import { check, faultsOf } from '../../lib/configuration/documents.js'

t.test("the document's section has bounds", async (t) => {
  t.strictSame(
    faultsOf({
      analytics: {
        enabled: true,
        excludePaths: ['/health', '/admin/*', '/files*', '/things/:id'],
        serviceName: 'shop 1',
        retentionDays: 366,
        buffer: { enabled: false, flushInterval: 1, maxSize: 1 }
      }
    }),
    []
  )
  t.strictSame(faultsOf({ analytics: {} }), ['/analytics/enabled: missing: expected true or false'])
  for (
    const [wrong, pointer] of [
      [{ excludePaths: ['health'] }, '/analytics/excludePaths/0'],
      [{ excludePaths: ['/a*b'] }, '/analytics/excludePaths/0'],
      [{ serviceName: 'a\nb' }, '/analytics/serviceName'],
      [{ retentionDays: 0 }, '/analytics/retentionDays'],
      [{ retentionDays: 367 }, '/analytics/retentionDays'],
      [{ buffer: { flushInterval: 0 } }, '/analytics/buffer/flushInterval'],
      [{ buffer: { flushInterval: 1.5 } }, '/analytics/buffer/flushInterval'],
      [{ buffer: { flushInterval: 3_600_001 } }, '/analytics/buffer/flushInterval'],
      [{ buffer: { maxSize: -1 } }, '/analytics/buffer/maxSize'],
      [{ buffer: { maxSize: 100_001 } }, '/analytics/buffer/maxSize']
    ] as const
  ) {
    const faults = faultsOf({ analytics: { enabled: true, ...wrong } })
    t.equal(faults.length, 1, JSON.stringify(wrong))
    t.ok(faults[0]?.startsWith(`${pointer}: `), pointer)
  }
  t.match(faultsOf({ analytics: { enabled: true, excludePath: [] } }), [/did you mean "excludePaths"/])
})

t.test('without the section analytics is disabled', async (t) => {
  t.match(check({}).analytics, { enabled: false })
})
