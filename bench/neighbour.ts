/**
 * Measures the effect of the worst tenant on another one: the rate and the response times of the other's row route during each attack,
 * compared with quiet slices of the same run; and the slowest response of `/health`. In further slices the same attack hits a second
 * server with its own database, which has only the processors in common. Their ratio is the floor: the effect of the machine, which no
 * software can go below. The three kinds of slices take turns at going first. A p99 is the median of the slices' p99, so that one
 * disturbed slice does not decide. Long pauses of the caller mean that the machine is too busy for valid figures. Long pauses of the
 * server show that an attack blocks it. Run `node --import tsx bench/neighbour.ts` after a build. Options:
 *   --seconds N      duration of a slice (default 2)
 *   --slices N       slices of each kind for each attack (default 7)
 *   --rate N         requests a second of the other tenant (default 200)
 *   --attacks LIST   which of expressions,slowReaders,manyKeys,bodies,computed,saves,slowQueries,largeResponses,flood,all
 *                    (default all of them)
 */
import { randomBytes } from 'node:crypto'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startPrivateServer } from '../test/helpers/postgres/private.js'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import {
  type AttackName,
  attacks,
  neighbourSql,
  startUpstream,
  type Statuses,
  worstTenant
} from '../test/helpers/worst-neighbour.js'
import type { BenchRequest } from './cases.js'
import type { AttackOrder } from './neighbour/attacker.js'
import type { CallerOrder, CallerReport } from './neighbour/caller.js'
import type { NeighbourSettings } from './neighbour/server.js'
import { markdownTable, median } from './statistics.js'
import { startSubject, startWorker, type Subject } from './subject.js'
import { withClient } from './tenants/data.js'

const names = Object.keys(attacks) as AttackName[]
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '2' },
    slices: { type: 'string', default: '7' },
    rate: { type: 'string', default: '200' },
    attacks: { type: 'string', default: [...names, 'all'].join(',') }
  }
})
const [seconds = 2, slices = 7, rate = 200] = [options.seconds, options.slices, options.rate].map(Number)

const calmMs = 100 // ms in which a calm server uses less than `calmCpu`
const calmCpu = 10_000 // µs
const calmWait = 10_000 // ms

const token = (tenant: string) =>
  `Bearer ${signToken({ sub: `admin of ${tenant}`, role: 'admin', tenant_id: tenant }, { expiresIn: 86_400 })}`
const upstream = await startUpstream()
const shared = await startSide()
const apart = await startSide()
const attacker = startWorker<{ order: AttackOrder }, Statuses>('neighbour/attacker.ts')
const caller = startWorker<CallerOrder, CallerReport>('neighbour/caller.ts')
try {
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}; ${rate} requests/s of one tenant beside the attacks of another\n`
  )
  const rows: string[][] = []
  for (const { server } of [shared, apart]) await firstUses(server)
  await slice(1)
  for (const name of options.attacks.split(',')) rows.push(await compare(name))
  console.log(
    markdownTable([
      'attack',
      'rate, attacked / quiet (target ≥ 0.8)',
      'quiet p99 ms',
      'attacked p99 ms',
      'ratio (target ≤ 2)',
      'floor: ratio beside a second server',
      'above the floor: ratio / floor',
      '/health, longest ms (target < 50)',
      'beside a second server',
      'longest pause of the server, ms',
      'of the caller, ms',
      'failures',
      'responses to the attack'
    ], rows)
  )
} finally {
  for (const { stop } of [caller, attacker, shared, apart]) await stop()
  upstream.close()
}

interface Side {
  readonly server: Subject
  stop(): Promise<void>
}

/** A server with its own database. */
async function startSide (): Promise<Side> {
  const database = await startPrivateServer({ settings: { shared_buffers: '256MB', timezone: 'UTC' } })
  const connectionString = `postgres://postgres:postgres@127.0.0.1:${database.port}/postgres`
  await withClient(connectionString, async (client) => {
    await client.query(neighbourSql)
  })
  const settings: NeighbourSettings = {
    connectionString,
    jwtSecret: testSecret,
    masterKey: randomBytes(32).toString('base64'),
    upstream: upstream.origin
  }
  const server = await startSubject('neighbour', settings)
  await withClient(connectionString, async (client) => {
    await client.query("insert into tenantry.tenants (id, name, plan) values ($1, $1, 'enterprise'), ('quiet', 'quiet', 'measured')", [
      worstTenant
    ])
  })
  return {
    server,
    async stop () {
      await server.stop()
      await database.remove()
    }
  }
}

async function compare (name: string): Promise<string[]> {
  const attackNames = name === 'all' ? names : names.filter((known) => known === name)
  if (attackNames.length === 0) throw new Error(`there is no attack ${name}`)
  const quiet: CallerReport[] = []
  const besideOther: CallerReport[] = []
  const attacked: CallerReport[] = []
  const [answered, failures]: [Statuses, Statuses] = [{}, {}]
  const stalls: number[] = []
  const attackedSlice = async ({ server }: Side) => {
    await server.usage()
    await attacker.run({ order: { names: attackNames, target: { url: server.url, authorization: token(worstTenant) } } })
    const report = await slice(seconds)
    const { stall } = await server.usage()
    const responses = await attacker.run({ order: null })
    await calm(server)
    return { report, stall, responses }
  }
  const kinds = [
    async () => {
      quiet.push(await slice(seconds))
    },
    async () => {
      besideOther.push((await attackedSlice(apart)).report)
    },
    async () => {
      const { report, stall, responses } = await attackedSlice(shared)
      attacked.push(report)
      stalls.push(stall)
      add(failures, report.failures)
      add(answered, responses)
    }
  ]
  for (let index = 0; index < slices; index++) {
    for (const kind of kinds) await kind()
    kinds.push(...kinds.splice(0, 1))
  }
  const rateOf = (reports: readonly CallerReport[]) => median(reports.map(({ rate }) => rate))
  const p99 = (reports: readonly CallerReport[]) => median(reports.map(({ times }) => percentile(times, 0.99)))
  const slowestHealth = (reports: readonly CallerReport[]) => Math.max(...reports.map(({ health }) => health))
  const ratio = p99(attacked) / p99(quiet)
  const floor = p99(besideOther) / p99(quiet)
  return [
    name,
    (rateOf(attacked) / rateOf(quiet)).toFixed(2),
    p99(quiet).toFixed(1),
    p99(attacked).toFixed(1),
    ratio.toFixed(2),
    floor > 2 ? `${floor.toFixed(2)} (the target is out of reach)` : floor.toFixed(2),
    (ratio / floor).toFixed(2),
    slowestHealth(attacked).toFixed(0),
    slowestHealth(besideOther).toFixed(0),
    Math.max(...stalls).toFixed(0),
    Math.max(...attacked.map(({ stall }) => stall)).toFixed(0),
    listed(failures),
    listed(answered)
  ]
}

/** Waits until the server has finished the work of an attack, which would slow down the next quiet slice. */
async function calm (server: Subject): Promise<void> {
  const end = performance.now() + calmWait
  let { cpu } = await server.usage()
  while (performance.now() < end) {
    await sleep(calmMs)
    const before = cpu
    cpu = (await server.usage()).cpu
    if (cpu - before < calmCpu) return
  }
}

function add (sum: Statuses, counts: Statuses): void {
  for (const [status, count] of Object.entries(counts)) sum[status] = (sum[status] ?? 0) + count
}

function listed (counts: Statuses): string {
  return Object.entries(counts).map(([status, count]) => `${status}: ${count}`).join(', ')
}

/** The first use of an endpoint in a process loads its code and compiles its schemas. No tenant can repeat that. */
async function firstUses ({ url }: Subject): Promise<void> {
  const step = { id: 'a', type: 'database', operation: 'select', table: 'items', condition: 'input.n == 0' }
  const uses: [path: string, body?: object][] = [
    ['/agent/workflow', { async: false, input: { n: 1 }, steps: [step] }],
    ['/tenant/config', { routes: [] }],
    ['/echo', {}],
    ['/upstream'],
    ['/computed'],
    ['/items?limit=1']
  ]
  for (const [path, body] of uses) {
    const headers = { authorization: token(worstTenant), ...body !== undefined && { 'content-type': 'application/json' } }
    await (await fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      body: body === undefined ? null : JSON.stringify(body)
    })).text()
  }
}

function slice (duration: number): Promise<CallerReport> {
  const headers = { authorization: token('quiet') }
  const requests = Array.from({ length: 500 }, (_, index): BenchRequest => ({ method: 'GET', path: `/items/${index + 1}`, headers }))
  return caller.run({ url: shared.server.url, requests, rate, seconds: duration })
}

function percentile (values: readonly number[], share: number): number {
  return [...values].sort((left, right) => left - right)[Math.floor((values.length - 1) * share)] ?? Number.NaN
}
