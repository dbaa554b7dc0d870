/** A PostgreSQL server for one test, which can stop, start and crash it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { programArguments } from '../typescript.js'
import { findNativeFolder } from './binaries.js'
import type { ClusterOptions, StopMode } from './cluster.js'
import type { Order, Report } from './keeper.js'
import { keeperEnvironment, keeperProgram } from './shared.js'

type OrderBody = { order: 'start' } | { order: 'stop', mode: StopMode }

export interface PrivateServer {
  readonly port: number
  /** Restarts the server on the same port. Resolves when it accepts connections. */
  start(): Promise<void>
  /** Resolves when the server has stopped. */
  stop(mode: StopMode): Promise<void>
  /** Stops the server, deletes its data and ends its keeper. */
  remove(): Promise<void>
}

/** Starts a server that ends with this process at the latest. */
export async function startPrivateServer (options: ClusterOptions = {}): Promise<PrivateServer> {
  await findNativeFolder()
  const keeper = spawn(process.execPath, [...programArguments(keeperProgram), 'private', JSON.stringify(options)], {
    env: keeperEnvironment(),
    stdio: ['ignore', 'ignore', 'inherit', 'ipc']
  })
  const waiting = new Map<number, { resolve: (report: Report) => void, reject: (error: Error) => void }>()
  const reportOf = (id: number): Promise<Report> => new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))
  keeper.on('message', (report: Report) => {
    const caller = waiting.get(report.id)
    waiting.delete(report.id)
    if (report.error === undefined) caller?.resolve(report)
    else caller?.reject(new Error(report.error))
  })
  const exited = once(keeper, 'exit').then(() => {
    for (const { reject } of waiting.values()) reject(new Error('the keeper of the PostgreSQL server ended'))
    waiting.clear()
  })
  let lastId = 0
  const send = async (body: OrderBody): Promise<void> => {
    const order: Order = { id: ++lastId, ...body }
    const done = reportOf(order.id)
    keeper.send(order)
    await done
  }
  const { port } = await reportOf(0)
  return {
    port,
    start: () => send({ order: 'start' }),
    stop: mode => send({ order: 'stop', mode }),
    async remove () {
      if (keeper.connected) keeper.disconnect()
      await exited
    }
  }
}
