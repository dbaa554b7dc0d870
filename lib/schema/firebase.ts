/** Firestore, where documents of `firebaseQueries` can be kept. */
import { Type, type Static } from 'typebox'
import { Section, type Filled } from './annotations.js'

export const Firebase = Section({
  projectId: Type.String({
    pattern: '^[a-z0-9][a-z0-9.:-]{0,99}$',
    expected: 'the id of a Google Cloud project, such as `my-app-1a2b3`',
    description: 'The id of the Google Cloud project.'
  }),
  credentials: Type.Optional(Section({
    clientEmail: Type.String({ minLength: 1, description: 'The e-mail address of the service account.' }),
    privateKey: Type.String({
      minLength: 1,
      description:
        'The private key of the service account, in PEM format. Use a setting, such as `{{env.FIREBASE_PRIVATE_KEY}}`. Its line breaks can be written as `\\n`.'
    })
  }, { description: 'A service account. Default: the Application Default Credentials of the machine.' })),
  databaseId: Type.Optional(
    Type.String({
      pattern: '^(?:\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$',
      expected: 'the id of a Firestore database',
      default: '(default)',
      description: "The id of the project's database."
    })
  ),
  emulatorHost: Type.Optional(Type.String({
    pattern: '^(?:[A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):(?:[1-9][0-9]{0,4})$',
    expected: 'an address, `host:port`',
    description: 'The address of an emulator, `host:port`, used without TLS and credentials. Default: Firestore itself.'
  })),
  sharedCollections: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
    uniqueItems: true,
    default: [],
    maxItems: 1000,
    description:
      "Collections of the platform, at the root of the database. All tenants can read them, but a tenant's own document cannot write them. Every other collection belongs to the tenant, at `tenants/{tenant}/{collection}`."
  }))
}, { description: 'Firestore, for `firebaseQueries`. It requires the package `@google-cloud/firestore`.' })
export type Firebase = Filled<Static<typeof Firebase>, 'databaseId' | 'sharedCollections'>
