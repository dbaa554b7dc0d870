/** Skips that continuous integration lets through. */

/** The reason of a skip of what the emulator of Firestore from npm cannot show. */
export const needsGoogle = "needs Google's emulator: start it and set FIRESTORE_EMULATOR_HOST"
