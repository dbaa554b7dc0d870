/**
 * `npm run bench`: compares tenantry with the hand-written server, and with node:http and pg without a framework, in one run on the same
 * PostgreSQL, table, pool and load. Then measures the start of a thousand declared routes (bench/routes.ts). Rounds alternate between the
 * servers; ratios are medians over the rounds.
 * Options:
 *   --rounds N         rounds of each case (default 5)
 *   --seconds N        seconds of load on each server in a round (default 5)
 *   --connections N    connections of the load (default 32)
 *   --case TEXT        only the cases whose name contains the text
 *   --subject NAME     the measured server (default tenantry); hand-written measures the noise of the machine
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { testSecret } from '../test/helpers/tokens.js'
import { acceptedRequests, checkAgreement, refusedRequests } from './agreement.js'
import { type Case, createCases } from './cases.js'
import { type BenchDatabase, rowCount, startDatabase, tenantCount } from './database.js'
import { markdownTable, type Measurement, medianOf, ratio } from './statistics.js'
import { type Load, startLoad, startSubject, type Subject } from './subject.js'

const baseName = 'hand-written'
const rawName = 'node-http'
const warmUpSeconds = 2

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '32' },
    case: { type: 'string', default: '' },
    subject: { type: 'string', default: 'tenantry' }
  }
})
const [rounds, seconds, connections] = [options.rounds, options.seconds, options.connections].map(Number)
if (
  !(rounds !== undefined && rounds > 0) || !(seconds !== undefined && seconds > 0) || !(connections !== undefined && connections > 0)
) { throw new Error('--rounds, --seconds and --connections must be numbers above 0') }

const database = await startDatabase()
const load = startLoad()
const subjects: Subject[] = []
try {
  const settings = { connectionString: database.connectionString, jwtSecret: testSecret }
  const base = await startSubject(baseName, settings)
  subjects.push(base)
  const subject = await startSubject(options.subject, settings)
  subjects.push(subject)
  const raw = await startSubject(rawName, settings)
  subjects.push(raw)
  const cases = createCases(database)
  const differing = await checkAgreement(base.url, subject.url, [...acceptedRequests(cases), ...refusedRequests(cases)])
  await checkAgreement(base.url, raw.url, acceptedRequests(cases))
  await database.reset()
  const results = await measure(cases.filter(({ name }) => name.includes(options.case)), { base, subject, raw })
  await print(results, { base, subject, raw }, differing)
} finally {
  for (const process of [...subjects, load]) await process.stop()
  await database.stop()
}
// A run of all cases also measures the start with declared routes.
if (options.case === '' && options.subject === 'tenantry') await import('./routes.js')

interface Servers {
  readonly base: Subject
  readonly subject: Subject
  readonly raw: Subject
}

type Result = { readonly measured: Case } & Readonly<Record<keyof Servers, Measurement[]>>

async function measure (cases: readonly Case[], servers: Servers): Promise<Result[]> {
  const results = cases.map((measured): Result => ({ measured, base: [], subject: [], raw: [] }))
  const order: Array<keyof Servers> = ['base', 'subject', 'raw']
  for (const { measured } of results) {
    for (const key of order) await round(measured, servers[key], database, load, warmUpSeconds)
  }
  for (let index = 0; index < Number(rounds); index++) {
    for (const result of results) {
      for (const key of order) result[key].push(await round(result.measured, servers[key], database, load, Number(seconds)))
    }
    // The servers take turns at going first, so that none always gets the warmer machine.
    order.push(...order.splice(0, 1))
    console.error(`round ${index + 1} of ${rounds}`)
  }
  return results
}

async function round (measured: Case, server: Subject, database: BenchDatabase, load: Load, seconds: number): Promise<Measurement> {
  const [before, databaseBefore] = [await server.usage(), await database.cpu()]
  const report = await load.run({ url: server.url, requests: measured.requests, connections: Number(connections), seconds })
  const [after, databaseAfter] = [await server.usage(), await database.cpu()]
  if (report.errors + report.refused > 0) {
    throw new Error(`${server.name}, ${measured.name}: ${report.errors} errors, ${report.refused} refused`)
  }
  if (measured.writes === true) await database.reset()
  const databaseCpu = databaseBefore === null || databaseAfter === null ? Number.NaN : (databaseAfter - databaseBefore) / report.count
  return { ...report, cpu: (after.cpu - before.cpu) / report.count, databaseCpu }
}

async function print (results: readonly Result[], { base, subject, raw }: Servers, differing: readonly string[]): Promise<void> {
  console.log(
    `PostgreSQL with ${rowCount} rows of ${tenantCount} tenants, ${connections} connections, ${rounds} rounds of ${seconds} s, Node ${process.version}, ${cpus().length} × ${
      cpus()[0]?.model
    }\n`
  )
  const row = (name: string, server: string, rounds: readonly Measurement[]): string[] => [
    name,
    server,
    Math.round(medianOf(rounds, 'requestsPerSecond')).toString(),
    medianOf(rounds, 'p50').toFixed(2),
    medianOf(rounds, 'p99').toFixed(2),
    medianOf(rounds, 'cpu').toFixed(1),
    medianOf(rounds, 'databaseCpu').toFixed(1)
  ]
  console.log(markdownTable(
    ['case', 'server', 'requests/s', 'p50 ms', 'p99 ms', 'server CPU µs/request', 'PostgreSQL CPU µs/request'],
    results.flatMap(({ measured, ...rounds }) => [
      row(measured.name, base.name, rounds.base),
      row('', subject.name, rounds.subject),
      row('', raw.name, rounds.raw)
    ])
  ))
  printRatios(results, subject, base, 'base', ({ target }) => target)
  printRatios(results, subject, raw, 'raw', ({ targetOfRaw }) => targetOfRaw)
  const usages = await Promise.all([base, subject, raw].map(async (server) => `${server.name} ${megabytes((await server.usage()).rss)}`))
  console.log(`\nMemory after load: ${usages.join(', ')}`)
  if (differing.length > 0) console.log(`\nHeaders that only one of ${base.name} and ${subject.name} sends: ${differing.join(', ')}`)
}

function printRatios (
  results: readonly Result[],
  subject: Subject,
  other: Subject,
  key: keyof Servers,
  targetOf: (measured: Case) => Partial<Case['target']> | undefined
): void {
  console.log(`\nRatios of ${subject.name} to ${other.name}: the median of the rounds (lowest to highest).\n`)
  console.log(markdownTable(
    ['case', 'requests/s', 'target', 'CPU a request', 'target', 'p99'],
    results.map((result) => {
      const { throughput, cpu } = targetOf(result.measured) ?? {}
      return [
        result.measured.name,
        formatRatio(ratio(result.subject, result[key], 'requestsPerSecond')),
        throughput === undefined ? '' : `≥ ${throughput.toFixed(1)}`,
        formatRatio(ratio(result.subject, result[key], 'cpu')),
        cpu === undefined ? '' : `≤ ${cpu.toFixed(1)}`,
        formatRatio(ratio(result.subject, result[key], 'p99'))
      ]
    })
  ))
}

function formatRatio ({ median, low, high }: ReturnType<typeof ratio>): string {
  return `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`
}

function megabytes (bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MB`
}
