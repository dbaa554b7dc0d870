/** The Firestore emulator in its own process: Google's if FIRESTORE_EMULATOR_HOST is set, else the one from npm. */
import { startEmulator } from '../../test/helpers/firestore.js'

process.once('disconnect', () => process.exit(0))
const { host } = await startEmulator()
process.send?.(host)
