/** A process's list of ended tokens, and events while it is being read. */
import { test } from 'tap'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createRevocations } from '../../../plugins/sessions/list.js'
import { createOwners } from '../../../plugins/sessions/owners.js'
import { subjectOf } from '../../../plugins/sessions/sequence.js'
import type { ReadRevocations } from '../../../plugins/sessions/store.js'

const never = () => {
  throw new Error('the id was not requested')
}
const later = Date.now() + 1e6
const owners = createOwners(['idp'])

/** Lists whose reads the test completes. */
function open (maxTenants = 10) {
  const rows = new Map<string, ReadRevocations>()
  const waiting: (() => void)[] = []
  let reads = 0
  let held = false
  const store: Parameters<typeof createRevocations>[0] = {
    async read (tenant) {
      reads++
      // The database's content at the time of the read.
      const found = rows.get(tenant) ?? { tokens: null, ends: null }
      if (held) {
        await new Promise<void>((resolve) => {
          waiting.push(resolve)
        })
      }
      return found
    }
  }
  const list = createRevocations(store, owners, maxTenants, Date.now)

  return {
    list,
    rows,
    reads: () => reads,
    hold () {
      held = true
    },
    async release () {
      held = false
      // The read starts in the next turn.
      await new Promise(setImmediate)
      for (const resolve of waiting.splice(0)) resolve()
    },
    refuses: (id: string, tenant?: string) => list.refuses({ sub: 'ada', ...tenant !== undefined && { tenant_id: tenant } }, () => id)
  }
}

test("a cached list answers synchronously, and needs a token's id only if some were ended", async (t) => {
  const { list, rows, refuses } = open()
  rows.set('acme', { tokens: 'one two', ends: null })
  t.equal(await refuses('one', 'acme'), true)
  t.equal(refuses('two', 'acme'), true)
  t.equal(refuses('three', 'acme'), false)
  t.equal(await refuses('one'), false, 'of the platform')
  t.equal(list.refuses({ sub: 'ada' }, never), false)
})

test('waiting calls see changes that happen while a list is read', async (t) => {
  const { list, rows, refuses, hold, release, reads } = open()
  hold()
  const before = list.version
  const refused = refuses('one', 'acme')
  await new Promise(setImmediate)
  rows.set('acme', { tokens: 'one', ends: null })
  list.changed(tenantRef('acme'))
  t.not(list.version, before, 'a checked token is checked again')
  await release()
  t.equal(await refused, true)
  t.equal(reads(), 2)
  t.equal(await refuses('one', 'acme'), true)

  hold()
  list.missed()
  const after = refuses('two', 'acme')
  await new Promise(setImmediate)
  rows.set('acme', { tokens: 'one two', ends: null })
  list.missed()
  await release()
  t.equal(await after, true, 'also if the change is unknown')
})

test('an evicted list is read again completely', async (t) => {
  const { list, rows, refuses, reads } = open(1)
  rows.set('acme', { tokens: 'one', ends: null })
  t.equal(await refuses('one', 'acme'), true)
  t.equal(await refuses('one', 'globex'), false)
  const { version } = list
  rows.set('acme', { tokens: 'one two', ends: null })
  t.equal(await refuses('two', 'acme'), true)
  t.equal(list.version, version, 'which is not a change')
  t.equal(reads(), 3)
})

test('an unreadable list is an error, neither a rejection nor an admission', async (t) => {
  let fault: Error | null = new Error('gone')
  const read = async () => {
    if (fault !== null) throw fault
    return { tokens: 'one', ends: null }
  }
  const list = createRevocations({ read }, owners, 1, Date.now)
  await t.rejects(async () => list.refuses({ sub: 'ada' }, () => 'one'), /gone/)
  fault = null
  t.equal(await list.refuses({ sub: 'ada' }, () => 'one'), true, 'and is read again at the next request')
})

test("the end of a user's sessions takes precedence over the tenant's, while each is in force", async (t) => {
  const { list, rows } = open()
  const [ada, bob] = ['ada', 'bob'].map((sub) => subjectOf(sub).toString('base64'))
  rows.set('', { tokens: null, ends: ` 5000 ${later},${ada} 9000 ${later},${bob} 9000 1` })
  const refuses = async (sub: string, claims: object) => await list.refuses({ sub, ...claims }, never)
  t.same(
    await Promise.all(
      [{ session_seq: 0 }, { session_seq: 5000 }, { session_seq: 9000 }, { session_seq: 9001 }, { session_seq: 1e300 }, {
        session_seq: 1e300,
        iat: 10
      }].map((claims) => refuses('ada', claims))
    ),
    [true, true, false, false, true, false],
    'a later version belongs to a logout that is not known yet; an unknown one is invalid'
  )
  t.same(
    await Promise.all([{}, { iat: 9 }, { iat: 9.5 }, { iat: 10 }, { iat: '10' }, { iat: NaN }].map((claims) => refuses('ada', claims))),
    [true, true, false, false, true, true],
    'a token from elsewhere has its issue time'
  )
  t.same(
    await Promise.all([{ session_seq: 5000 }, { session_seq: 9000 }, { iat: 5 }, { iat: 6 }].map((claims) => refuses('bob', claims))),
    [false, false, true, false],
    'an expired end has no effect'
  )
  t.equal(await refuses('eve', { session_seq: 5000 }), false)
  t.equal(await refuses('eve', { session_seq: 0 }), true)
  t.not(subjectOf('ada\ud800').toString('base64'), subjectOf('ada\ud801').toString('base64'), 'users whose names end in different unpaired surrogates are separate')
})

test('users without a tenant belong to the platform, or to their provider', async (t) => {
  const { list, rows } = open()
  const end = `${subjectOf('idp:ada').toString('base64')} 9000 ${later}`
  rows.set(':idp', { tokens: null, ends: ` 9000 ${later}` })
  rows.set('', { tokens: null, ends: end })
  const refuses = async (sub: string, tenant?: string) =>
    await list.refuses({ sub, session_seq: 0, ...tenant !== undefined && { tenant_id: tenant } }, never)
  t.same(await Promise.all(['idp:ada', 'ada', 'idp', ':idp', 'other:ada', 'idp:ada:x', 'idp:'].map((sub) => refuses(sub))), [
    true,
    false,
    false,
    false,
    false,
    true,
    true
  ])
  t.equal(await refuses('idp:ada', 'acme'), false)
  rows.set(':idp', { tokens: null, ends: null })
  list.changed(tenantRef('acme'))
  t.equal(await refuses('idp:ada'), true, 'not announced')
  list.changed(platformRef)
  t.equal(await refuses('idp:ada'), false, 'the empty tenant stands for all of them')
})
