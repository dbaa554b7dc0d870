/** The measured servers and the load generators, as child processes that answer over IPC. */
import type { ChildProcess } from 'node:child_process'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { LoadOrder, LoadReport } from './load.js'
import type { ServerMessage, ServerSettings, Usage } from './server-process.js'
import type { SliceOrder, SliceReport } from './slices.js'

export interface Subject {
  readonly name: string
  readonly url: string
  readonly pid: number
  usage(): Promise<Usage>
  stop(): Promise<void>
}

/** A process that runs one order at a time. */
export interface Worker<Order extends object, Report> {
  run(order: Order): Promise<Report>
  stop(): Promise<void>
}
export type Load = Worker<LoadOrder, LoadReport>

/** Starts the server of bench/<name>/server.ts. */
export async function startSubject<Settings extends ServerSettings> (name: string, settings: Settings): Promise<Subject> {
  const child = start(`${name}/server.ts`, [JSON.stringify(settings)])
  const ready: ServerMessage = await messageOf(child)
  if (ready.kind !== 'ready') throw new Error(`${name} did not start`)
  return {
    name,
    url: `http://127.0.0.1:${ready.port}`,
    pid: child.pid ?? 0,
    async usage () {
      const report = messageOf<ServerMessage>(child)
      child.send('usage')
      const message = await report
      if (message.kind !== 'usage') throw new Error(`${name} did not respond`)
      return message
    },
    stop: () => stop(child)
  }
}

export function startLoad (): Load {
  return startWorker('load.ts')
}

export function startSlices (): Worker<SliceOrder, SliceReport> {
  return startWorker('slices.ts')
}

export function startWorker<Order extends object, Report> (file: string): Worker<Order, Report> {
  const child = start(file, [])
  return {
    async run (order) {
      const report = messageOf<Report>(child)
      child.send(order)
      return await report
    },
    stop: () => stop(child)
  }
}

function start (file: string, args: string[]): ChildProcess {
  return fork(fileURLToPath(new URL(file, import.meta.url)), args, {
    execArgv: ['--import', import.meta.resolve('tsx')],
    env: { ...process.env, NODE_ENV: 'production' }
  })
}

async function messageOf<Message> (child: ChildProcess): Promise<Message> {
  const given = new AbortController()
  const ended = once(child, 'exit', { signal: given.signal }).then(() => {
    throw new Error('a process of the benchmark ended')
  })
  // If the response comes first, the wait for the exit is aborted, which is not a failure.
  ended.catch(() => {})
  const message = once(child, 'message', { signal: given.signal }).then(([message]) => message)
  message.catch(() => {})
  try {
    return await Promise.race([message, ended])
  } finally {
    given.abort()
  }
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const exited = once(child, 'exit')
  child.disconnect()
  await exited
}
