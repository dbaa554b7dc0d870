/**
 * Firestore for tests: an emulator from npm that runs in the process, or Google's own where FIRESTORE_EMULATOR_HOST names
 * it. The one from npm cannot show all that Firestore does: a test that needs more is skipped there by name.
 */
import type { Test } from 'tap'
import { randomBytes } from 'node:crypto'
import { FirestoreServer } from '@firestore-emulator/server'

export interface TestFirestore {
  /** `host:port` */
  readonly emulatorHost: string
  /** One of this test's own: its database is empty. */
  readonly projectId: string
  /** Google's emulator. */
  readonly isComplete: boolean
  /** The emulator from npm goes away; nothing for Google's. */
  stop(): void
}

const google = process.env['FIRESTORE_EMULATOR_HOST'] ?? ''

/** The tests have Google's emulator. */
export const isGoogle = google !== ''

type Bind = (address: string, credentials: unknown, done: (error: Error | null, port: number) => void) => void

/** The emulator's `host:port`, and its end; Google's stays. */
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

/** The emulator would listen on every interface; it asks its gRPC server for an address. */
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
