/** Ends a command that runs until a signal comes. */
import type {} from '../plugins/stop/index.js'
import type { FastifyInstance } from 'fastify'

// that a start has to end when a signal comes in the middle of it; of a migration the database undoes what was not committed
const startMs = 5000

/** Resolves when a signal has closed the app. */
export type StopOnSignal = (app: FastifyInstance) => Promise<void>

/**
 * From now on SIGTERM and SIGINT, which has no `server.stopDelayMs`, end the process: at once with 0 before there is an
 * app, and whatever its start waits for. A second one ends it at once, with 1. Call it before anything takes time: the
 * first process of a container does not get a signal that it does not listen to.
 */
export function listenToSignals (): StopOnSignal {
  let isStopping = false
  let end = (_signal: NodeJS.Signals): void => {
    process.exit(0)
  }
  const stop = (signal: NodeJS.Signals) => {
    // A second signal ends the process at once.
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
          // Who sits before a terminal sends no requests elsewhere.
          if (signal === 'SIGINT' && app.hasDecorator('stopping')) app.stopping.skipDelay()
        }, () => {})
        app.close().then(resolve, reject)
      }
    })
}
