/** The settings of both servers of bench/firestore.ts. */
import type { ServerSettings } from '../server-process.js'

export interface FirestoreSettings extends ServerSettings {
  readonly emulatorHost: string
  readonly projectId: string
}
