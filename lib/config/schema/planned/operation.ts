/** Running the service: files (SPEC, DESIGN 7 and 11). */
import { Type } from 'typebox'
import { Planned, Section } from '../annotations.js'

export const Firebase = Planned(Section({
  projectId: Type.String(),
  clientEmail: Type.Optional(Type.String()),
  privateKey: Type.Optional(Type.String()),
  databaseId: Type.Optional(Type.String())
}, { description: 'Firestore, for `firebaseQueries`.' }), 'Firestore; `firebaseQueries` keep their documents in the SQL database')

const Bucket = Section({
  endpoint: Type.Optional(Type.String()),
  region: Type.Optional(Type.String()),
  bucket: Type.Optional(Type.String()),
  accessKeyId: Type.Optional(Type.String()),
  secretAccessKey: Type.Optional(Type.String()),
  publicUrl: Type.Optional(Type.String())
})

export const Storage = Planned(Section({
  path: Type.Optional(Type.String({ description: 'The folder of files on the local disk.' })),
  supabase: Type.Optional(Bucket),
  r2: Type.Optional(Bucket),
  s3: Type.Optional(Bucket)
}, { description: 'Where files are kept.' }), 'files')

export const StorageProvider = Planned(Type.Enum(['supabase', 'r2', 'both'], { description: 'Which object storage keeps files; `both` mirrors.' }), 'files')

export const RouteMultipart = Planned(Type.Boolean({ description: 'The route accepts files.' }), 'files')
