/**
 * `npm run bench:routes`: the start time and memory of a thousand declared routes, compared with a server without routes. Each measurement
 * runs in its own process. Options: --routes N (default 1000), --rounds N (default 5).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { testSecret } from '../test/helpers/tokens.js'
import { startDatabase } from './database.js'
import type { StartReport } from './routes-process.js'
import { markdownTable, median } from './statistics.js'

const { values: options } = parseArgs({
  strict: false,
  options: { routes: { type: 'string', default: '1000' }, rounds: { type: 'string', default: '5' } }
})
const count = Number(options.routes)

const database = await startDatabase()
try {
  // The first start runs the migrations; later ones do not.
  await measure(0)
  const empty: StartReport[] = []
  const full: StartReport[] = []
  for (let round = 0; round < Number(options.rounds); round++) {
    empty.push(await measure(0))
    full.push(await measure(count))
  }
  print(empty, full)
} finally {
  await database.stop()
}

async function measure (count: number): Promise<StartReport> {
  const settings = JSON.stringify({ connectionString: database.connectionString, jwtSecret: testSecret, count })
  const child = fork(fileURLToPath(new URL('routes-process.ts', import.meta.url)), [settings], {
    execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
    env: { ...process.env, NODE_ENV: 'production' }
  })
  let report: StartReport | undefined
  child.once('message', (message: StartReport) => {
    report = message
  })
  await once(child, 'exit')
  if (report === undefined) throw new Error(`a server with ${count} routes did not start`)
  return report
}

function print (empty: readonly StartReport[], full: readonly StartReport[]): void {
  const figure = (reports: readonly StartReport[], name: keyof StartReport): number => median(reports.map(report => report[name]))
  const row = (title: string, name: keyof StartReport, unit: string, scale: number, asked: string): string[] => {
    const [without, withRoutes] = [figure(empty, name) / scale, figure(full, name) / scale]
    return [`${title}, ${unit}`, without.toFixed(0), withRoutes.toFixed(0), (withRoutes - without).toFixed(0), asked]
  }
  const megabyte = 1024 * 1024
  console.log(`From \`createServer\` to \`ready\`, Node ${process.version}, medians of ${options.rounds} processes each.\n`)
  console.log(markdownTable(['figure', 'no routes', `${count} routes`, 'difference', 'target'], [
    row('time', 'milliseconds', 'ms', 1, '≤ 1500'),
    row('CPU time', 'cpu', 'ms', 1, ''),
    row('memory after collection of garbage', 'rss', 'MB', megabyte, '≤ 150'),
    row('highest memory on the way', 'peak', 'MB', megabyte, ''),
    row('heap after collection of garbage', 'heap', 'MB', megabyte, '')
  ]))
}
