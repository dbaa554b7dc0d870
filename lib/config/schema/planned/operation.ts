/** A member of a later version: Firestore. */
import { Type } from 'typebox'
import { Planned, Section } from '../annotations.js'

export const Firebase = Planned(Section({
  projectId: Type.String(),
  clientEmail: Type.Optional(Type.String()),
  privateKey: Type.Optional(Type.String()),
  databaseId: Type.Optional(Type.String())
}, { description: 'Firestore, for `firebaseQueries`.' }), 'Firestore; `firebaseQueries` keep their documents in the SQL database')
