/** What endpoints do not do with documents in Firestore, for the descriptions of the API. */

/** Of endpoints on tables. */
export const notReached = 'It reaches tables only: documents in Firestore are not rows of a table.'
export const notWatched = 'Documents in Firestore cannot be watched: a `watch` names a table.'
export const noEvents = 'Changes of documents in Firestore send no `entity.*` events.'

/** The description with the note, where the server has Firestore. */
export function withNote (description: string, note: string, { firestore }: { readonly firestore: object | null }): string {
  return firestore === null ? description : `${description}\n\n${note}`
}
