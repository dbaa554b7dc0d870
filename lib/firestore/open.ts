/** Opens Firestore according to the document, with Google's client: an optional package. */
import { createReader } from './read.js'
import { createFirestore } from './store.js'
import type { DocumentStore, FirestoreOptions } from './types.js'
import { createValues } from './values.js'

const defaultTimeoutMs = 10_000

/** Rejects if the package is missing; the first operation connects to Firestore. `maxResultBytes` bounds the JSON of one query. */
export async function openFirestore (
  { sharedCollections = [], isDefault = false, timeoutMs = defaultTimeoutMs, maxResultBytes, ...options }: FirestoreOptions & {
    readonly maxResultBytes: number
  }
): Promise<DocumentStore> {
  const { projectId, credentials, databaseId, emulatorHost } = options
  const sdk = await import('@google-cloud/firestore').catch((cause: unknown) => {
    throw new Error('firebase needs the package "@google-cloud/firestore": run "npm i @google-cloud/firestore@^8.7.0"', { cause })
  })
  const client = new sdk.Firestore({
    projectId,
    // All digits of integers.
    useBigInt: true,
    // null: the client does not repeat a transaction's commit itself. It would for ten minutes, also after the caller got a response, when
    // a later tenant may have the id. The store decides about each try.
    clientConfig: { interfaces: { 'google.firestore.v1.Firestore': { methods: { Commit: null } } } },
    ...databaseId !== undefined && { databaseId },
    ...credentials !== undefined && { credentials: { client_email: credentials.clientEmail, private_key: credentials.privateKey } },
    // Without any credentials, the client would search for some.
    ...emulatorHost !== undefined && { host: emulatorHost, ssl: false, credentials: { client_email: 'emulator', private_key: 'emulator' } }
  })
  const shared = new Set(sharedCollections)
  const values = createValues(sdk, client, shared)
  return createFirestore({
    FieldPath: sdk.FieldPath,
    FieldValue: sdk.FieldValue,
    client,
    values,
    reader: createReader(sdk, client, values),
    isDefault,
    sharedCollections: shared,
    timeoutMs,
    maxResultBytes
  })
}
