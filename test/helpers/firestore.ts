/**
 * Firestore for tests: an emulator from npm in this process, or Google's emulator at FIRESTORE_EMULATOR_HOST. The one from npm lacks
 * some features of Firestore; tests of those skip there, with a reason.
 */
import { randomBytes } from 'node:crypto'
import { FirestoreServer } from '@firestore-emulator/server'
import type { Test } from 'tap'

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
