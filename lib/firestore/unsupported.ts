/** Notes for the API's description about endpoints that do not reach documents in Firestore. */

/** For endpoints on tables. */
export const notReached = 'Covers only tables: documents in Firestore are not rows of a table.'
export const notWatched = 'Documents in Firestore cannot be watched; only tables can be watched.'
export const noEvents = 'Changes of documents in Firestore send no `entity.*` events.'

/** The description with the note, if the server has Firestore. */
export function withNote (description: string, note: string, { firestore }: { readonly firestore: object | null }): string {
  return firestore === null ? description : `${description}\n\n${note}`
}
