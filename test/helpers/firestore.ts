/**
 * Firestore for tests: an emulator from npm in this process, or Google's emulator at FIRESTORE_EMULATOR_HOST. The one from npm lacks
 * some features of Firestore; tests of those skip there, with a reason.
 */
import { randomBytes } from 'node:crypto'
import { FirestoreServer } from '@firestore-emulator/server'
import type { Test } from 'tap'
import { gate } from './gate.js'

export interface TestFirestore {
  /** `host:port` */
  readonly emulatorHost: string
  /** A project of this test alone: its database is empty. */
  readonly projectId: string
  /** Whether this is Google's emulator. */
  readonly isComplete: boolean
  /** Stops the emulator from npm; no effect on Google's. */
  stop(): void
}

const google = process.env['FIRESTORE_EMULATOR_HOST'] ?? ''

/** Whether the tests have Google's emulator. */
export const isGoogle = google !== ''

type Bind = (address: string, credentials: unknown, done: (error: Error | null, port: number) => void) => void

/** The emulator's `host:port`, and a function that stops it. Google's is not stopped. */
export async function startEmulator (): Promise<{ readonly host: string, stop(): void }> {
  if (isGoogle) return { host: google, stop () {} }
  const server = new FirestoreServer()
  const port = await listenLocally(server)
  return { host: `127.0.0.1:${port}`, stop: () => server.stop() }
}

export async function firestoreServer (t: Test): Promise<TestFirestore> {
  const projectId = `test-${randomBytes(8).toString('hex')}`
  const { host, stop } = await startEmulator()
  t.teardown(stop)
  return { emulatorHost: host, projectId, isComplete: isGoogle, stop }
}

/** An emulator from npm whose requests a test disturbs. */
export interface FaultyFirestore extends TestFirestore {
  /** The next commit is made, and answered with the error of this gRPC code. */
  loseResponse(code: number): void
  /** Commits are refused with the error of this gRPC code until `allow` is called. */
  refuseCommits(code: number): { readonly count: number, allow(): void }
  /** Requests of the method wait until the returned function is called. */
  hold(method: 'Commit' | 'RunQuery'): () => void
}

type Respond = (error: { readonly code: number, readonly details: string } | null, ...values: unknown[]) => void
type Handler = (call: unknown, respond: Respond) => void

export async function faultyFirestore (t: Test): Promise<FaultyFirestore> {
  const server = new FirestoreServer()
  const port = await listenLocally(server)
  t.teardown(() => server.stop())
  const handlers: Map<string, { func: Handler }> = Reflect.get(Reflect.get(server, 'server'), 'handlers')
  const disturb = (method: string, disturbed: (handle: Handler) => Handler): void => {
    const handler = handlers.get(`/google.firestore.v1.Firestore/${method}`)
    if (handler === undefined) throw new Error(`the emulator has no method ${method}`)
    handler.func = disturbed(handler.func)
  }
  let lost: number | null = null
  disturb('Commit', (commit) => (call, respond) => {
    commit(call, (error, ...values) => {
      const code = lost
      if (error !== null || code === null) {
        respond(error, ...values)
      } else {
        lost = null
        respond({ code, details: 'the connection was lost after the commit' })
      }
    })
  })
  return {
    emulatorHost: `127.0.0.1:${port}`,
    projectId: `test-${randomBytes(8).toString('hex')}`,
    isComplete: false,
    stop: () => server.stop(),
    loseResponse (code) {
      lost = code
    },
    refuseCommits (code) {
      let isRefusing = true
      const refused = {
        count: 0,
        allow () {
          isRefusing = false
        }
      }
      disturb('Commit', (commit) => (call, respond) => {
        if (!isRefusing) return commit(call, respond)
        refused.count++
        respond({ code, details: 'refused before the commit' })
      })
      return refused
    },
    hold (method) {
      const held = gate()
      disturb(method, (handle) => async (call, respond) => {
        await held.opened
        handle(call, respond)
      })
      return held.open
    }
  }
}

/** The emulator would listen on every interface, so this sets the address in its gRPC server. */
async function listenLocally (server: FirestoreServer): Promise<number> {
  const grpc: { bindAsync: Bind } = Reflect.get(server, 'server')
  const bind = grpc.bindAsync.bind(grpc)
  let port = 0
  grpc.bindAsync = (_address, credentials, done) =>
    bind('127.0.0.1:0', credentials, (error, bound) => {
      port = bound
      done(error, bound)
    })
  await server.start(0)
  return port
}
