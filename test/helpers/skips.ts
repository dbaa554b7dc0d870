/** Skips that are allowed in continuous integration. */

/** The reason to skip tests that the Firestore emulator from npm does not support. */
export const needsGoogle = "needs Google's emulator: start it and set FIRESTORE_EMULATOR_HOST"
