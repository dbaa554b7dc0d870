/** What both servers of bench/firestore.ts are started with. */
import type { ServerSettings } from '../server-process.js'

export interface FirestoreSettings extends ServerSettings {
  readonly emulatorHost: string
  readonly projectId: string
}
