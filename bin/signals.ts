/** Ends a command when a signal arrives. */
import type { FastifyInstance } from 'fastify'

const startMs = 5000 // ms for a start to end after a signal; the database rolls back an unfinished migration

/** Resolves when a signal has closed the app. */
export type StopOnSignal = (app: FastifyInstance) => Promise<void>

/**
 * From now on SIGTERM and SIGINT end the process. Before there is an app they end it at once, with 0. SIGINT does not wait
 * for `server.stopDelayMs`. A second signal ends the process at once, with 1. Call it before slow work: the first process of
 * a container only gets signals that it listens for.
 */
export function listenToSignals (): StopOnSignal {
  let isStopping = false
  let end = (_signal: NodeJS.Signals): void => {
    process.exit(0)
  }
  const stop = (signal: NodeJS.Signals) => {
    if (isStopping) process.exit(1)
    isStopping = true
    end(signal)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  return (app) =>
    new Promise<void>((resolve, reject) => {
      end = (signal) => {
        const late = setTimeout(() => process.exit(0), startMs)
        app.ready().then(() => {
          clearTimeout(late)
          // A developer at a terminal has no load balancer.
          if (signal === 'SIGINT' && app.hasDecorator('stopping')) app.stopping.skipDelay()
        }, () => {})
        app.close().then(resolve, reject)
      }
    })
}
