/**
 * `npm run bench`: compares tenantry with the hand-written server, and with node:http and pg without a framework, in one run on the same
 * PostgreSQL, table, pool and load. Then measures the start of a thousand declared routes (bench/routes.ts). V8 optimizes the same code
 * differently in each process, so the servers are started several times. Rounds alternate between the servers; ratios are medians over
 * the rounds of all starts.
 * Options:
 *   --starts N         starts of each server (default 5)
 *   --rounds N         rounds of each case after a start (default 2)
 *   --seconds N        seconds of load on each server in a round (default 4)
 *   --connections N    connections of the load (default 32)
 *   --case TEXT        only the cases whose name contains the text
 *   --subject NAME     the measured server (default tenantry); hand-written measures the noise of the machine
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { testSecret } from '../test/helpers/tokens.js'
import { acceptedRequests, checkAgreement, refusedRequests } from './agreement.js'
import { type Case, createCases } from './cases.js'
import { rowCount, startDatabase, tenantCount } from './database.js'
import { markdownTable, type Measurement, median, medianOf, ratio } from './statistics.js'
import { startLoad, startSubject, type Subject } from './subject.js'

const warmUpSeconds = 3

const { values: options } = parseArgs({
  options: {
    starts: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '32' },
    case: { type: 'string', default: '' },
    subject: { type: 'string', default: 'tenantry' }
  }
})
const [starts, rounds, seconds, connections] = [
  positive(options.starts),
  positive(options.rounds),
  positive(options.seconds),
  positive(options.connections)
]

const roles = ['base', 'subject', 'raw'] as const
type Role = typeof roles[number]
type Result = { readonly measured: Case } & Readonly<Record<Role, Measurement[]>>
/** Bytes that each server holds after its load. */
type Memory = Readonly<Record<Role, number>>

const names: Readonly<Record<Role, string>> = { base: 'hand-written', subject: options.subject, raw: 'node-http' }
const database = await startDatabase()
const load = startLoad()
try {
  const cases = createCases(database)
  const results = cases
    .filter(({ name }) => name.includes(options.case))
    .map((measured): Result => ({ measured, base: [], subject: [], raw: [] }))
  const memory: Memory[] = []
  let differing: string[] = []
  for (let start = 1; start <= starts; start++) {
    const servers = { base: await startServer('base'), subject: await startServer('subject'), raw: await startServer('raw') }
    try {
      differing = await checkAgreement(servers.base.url, servers.subject.url, [...acceptedRequests(cases), ...refusedRequests(cases)])
      await checkAgreement(servers.base.url, servers.raw.url, acceptedRequests(cases))
      await database.reset()
      await measure(results, servers)
      memory.push({ base: await rss(servers.base), subject: await rss(servers.subject), raw: await rss(servers.raw) })
    } finally {
      for (const role of roles) await servers[role].stop()
    }
    console.error(`start ${start} of ${starts}`)
  }
  print(results, memory, differing)
} finally {
  await load.stop()
  await database.stop()
}
// A run of all cases also measures the start with declared routes.
if (options.case === '' && options.subject === 'tenantry') await import('./routes.js')

async function startServer (role: Role): Promise<Subject> {
  return await startSubject(names[role], { connectionString: database.connectionString, jwtSecret: testSecret })
}

async function rss (server: Subject): Promise<number> {
  return (await server.usage()).rss
}

/** Adds the rounds of one start to the results. */
async function measure (results: readonly Result[], servers: Readonly<Record<Role, Subject>>): Promise<void> {
  const order = [...roles]
  for (const { measured } of results) {
    for (const role of order) await round(measured, servers[role], warmUpSeconds)
  }
  for (let index = 0; index < rounds; index++) {
    for (const result of results) {
      for (const role of order) result[role].push(await round(result.measured, servers[role], seconds))
    }
    // The servers take turns at going first, so that none always gets the warmer machine.
    order.push(...order.splice(0, 1))
  }
}

async function round (measured: Case, server: Subject, seconds: number): Promise<Measurement> {
  const [before, databaseBefore] = [await server.usage(), await database.cpu()]
  const report = await load.run({ url: server.url, requests: measured.requests, connections, seconds })
  const [after, databaseAfter] = [await server.usage(), await database.cpu()]
  if (report.errors + report.refused > 0) {
    throw new Error(`${server.name}, ${measured.name}: ${report.errors} errors, ${report.refused} refused`)
  }
  if (measured.writes === true) await database.reset()
  const databaseCpu = databaseBefore === null || databaseAfter === null ? Number.NaN : (databaseAfter - databaseBefore) / report.count
  return { ...report, cpu: (after.cpu - before.cpu) / report.count, databaseCpu }
}

function print (results: readonly Result[], memory: readonly Memory[], differing: readonly string[]): void {
  console.log(
    `PostgreSQL with ${rowCount} rows of ${tenantCount} tenants, ${connections} connections, ${starts} starts of ${rounds} rounds of ${seconds} s, Node ${process.version}, ${cpus().length} × ${
      cpus()[0]?.model
    }\n`
  )
  console.log(markdownTable(
    ['case', 'server', 'requests/s', 'p50 ms', 'p99 ms', 'server CPU µs/request', 'PostgreSQL CPU µs/request'],
    results.flatMap(({ measured, ...measurements }) =>
      roles.map((role, index) => [
        index === 0 ? measured.name : '',
        names[role],
        Math.round(medianOf(measurements[role], 'requestsPerSecond')).toString(),
        medianOf(measurements[role], 'p50').toFixed(2),
        medianOf(measurements[role], 'p99').toFixed(2),
        medianOf(measurements[role], 'cpu').toFixed(1),
        medianOf(measurements[role], 'databaseCpu').toFixed(1)
      ])
    )
  ))
  printRatios(results, 'base', ({ target }) => target)
  printRatios(results, 'raw', ({ targetOfRaw }) => targetOfRaw)
  const megabytes = roles.map(role => `${names[role]} ${Math.round(median(memory.map(bytes => bytes[role])) / 1024 / 1024)} MB`)
  console.log(`\nMemory after load: ${megabytes.join(', ')}`)
  if (differing.length > 0) console.log(`\nHeaders that only one of ${names.base} and ${names.subject} sends: ${differing.join(', ')}`)
}

function printRatios (results: readonly Result[], other: Role, targetOf: (measured: Case) => Partial<Case['target']> | undefined): void {
  console.log(`\nRatios of ${names.subject} to ${names[other]}: the median of the rounds (lowest to highest).\n`)
  console.log(markdownTable(
    ['case', 'requests/s', 'target', 'CPU a request', 'target', 'p99'],
    results.map((result) => {
      const { throughput, cpu } = targetOf(result.measured) ?? {}
      return [
        result.measured.name,
        formatRatio(ratio(result.subject, result[other], 'requestsPerSecond')),
        throughput === undefined ? '' : `≥ ${throughput.toFixed(1)}`,
        formatRatio(ratio(result.subject, result[other], 'cpu')),
        cpu === undefined ? '' : `≤ ${cpu.toFixed(1)}`,
        formatRatio(ratio(result.subject, result[other], 'p99'))
      ]
    })
  ))
}

function formatRatio ({ median, low, high }: ReturnType<typeof ratio>): string {
  return `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`
}

function positive (text: string): number {
  if (!(Number(text) > 0)) throw new Error('--starts, --rounds, --seconds and --connections must be numbers above 0')
  return Number(text)
}
