/**
 * Measures what a workflow in a request costs: three dependent database steps compared with the same three queries by hand in one handler.
 * Run `node --import tsx bench/workflows.ts` after a build. Options:
 *   --rounds N         rounds of each side (default 7)
 *   --seconds N        seconds of load in a round (default 4)
 *   --connections N    connections of the load (default 32)
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import type { BenchRequest } from './cases.js'
import { startDatabase, tenants } from './database.js'
import { markdownTable, median } from './statistics.js'
import { startLoad, startSubject, type Subject } from './subject.js'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '32' }
  }
})
const [rounds = 7, seconds = 4, connections = 32] = [options.rounds, options.seconds, options.connections].map(Number)

interface Round {
  readonly requestsPerSecond: number
  /** The CPU time of the server's process, in microseconds for a request. */
  readonly cpu: number
  /** The CPU time of PostgreSQL, likewise; NaN if the system does not report it. */
  readonly databaseCpu: number
}

interface Reply {
  readonly workflowId: unknown
  readonly status: unknown
  readonly result: Readonly<Record<string, unknown>> & { readonly created_at: string }
}

const database = await startDatabase()
const load = startLoad()
const subjects: Subject[] = []
try {
  const settings = { connectionString: database.connectionString, jwtSecret: testSecret }
  const byHand = await startSubject('hand-written', settings)
  subjects.push(byHand)
  const workflow = await startSubject('tenantry', settings)
  subjects.push(workflow)
  await requireAgreement(byHand, workflow)
  const measured = new Map<Subject, Round[]>([[byHand, []], [workflow, []]])
  for (const subject of subjects) await round(subject, 2)
  for (let index = 0; index < rounds; index++) {
    for (const subject of index % 2 === 0 ? subjects : subjects.toReversed()) measured.get(subject)?.push(await round(subject, seconds))
  }
  print(measured.get(byHand) ?? [], measured.get(workflow) ?? [])
} finally {
  for (const process of [...subjects, load]) await process.stop()
  await database.stop()
}

function requests (): BenchRequest[] {
  return Array.from({ length: 50 }, (_, index) =>
    tenants.map((tenant): BenchRequest => ({
      method: 'POST',
      path: `/articles/${database.ids.get(tenant)?.[index]}/touch`,
      headers: {
        authorization: `Bearer ${signToken({ sub: `user-of-${tenant}`, role: 'editor', tenant_id: tenant }, { expiresIn: 86_400 })}`
      }
    }))).flat()
}

/** Both responses are the same, except for the run's id. */
async function requireAgreement (...sides: readonly Subject[]): Promise<void> {
  const [request] = requests()
  if (request === undefined) throw new Error('no requests')
  const responses = await Promise.all(sides.map(async ({ url }) => {
    const response = await fetch(url + request.path, { method: request.method, headers: request.headers })
    const { workflowId, result: { created_at: createdAt, ...result }, ...rest }: Reply = JSON.parse(await response.text())
    if (response.status !== 200 || typeof workflowId !== 'string') throw new Error(`${response.status} ${JSON.stringify(rest)}`)
    return JSON.stringify({ ...rest, result, createdAt: new Date(createdAt) })
  }))
  if (new Set(responses).size !== 1) throw new Error(`the servers respond differently: ${responses.join(' and ')}`)
}

async function round (server: Subject, time: number): Promise<Round> {
  const [before, databaseBefore] = [await server.usage(), await database.cpu()]
  const result = await load.run({ url: server.url, requests: requests(), connections, seconds: time })
  const [after, databaseAfter] = [await server.usage(), await database.cpu()]
  if (result.errors + result.refused > 0) throw new Error(`${server.name}: ${result.errors} errors, ${result.refused} refused`)
  const databaseCpu = databaseBefore === null || databaseAfter === null ? Number.NaN : (databaseAfter - databaseBefore) / result.count
  return { requestsPerSecond: result.requestsPerSecond, cpu: (after.cpu - before.cpu) / result.count, databaseCpu }
}

function print (base: readonly Round[], other: readonly Round[]): void {
  const row = (name: string, figure: keyof Round, asked: string): string[] => {
    const ratios = other.map((round, index) => round[figure] / (base[index]?.[figure] ?? Number.NaN))
    const of = (all: readonly Round[]) => median(all.map((round) => round[figure])).toFixed(0)
    return [
      name,
      of(base),
      of(other),
      `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`,
      asked
    ]
  }
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${connections} connections, medians of ${rounds} rounds of ${seconds} s\n`
  )
  console.log(markdownTable(['three database steps', 'by hand', 'workflow', 'ratio', 'target'], [
    row('CPU a request, µs', 'cpu', '≤ 1.25'),
    row('requests a second', 'requestsPerSecond', ''),
    row('CPU of PostgreSQL a request, µs', 'databaseCpu', '')
  ]))
}
