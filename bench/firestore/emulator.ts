/** The emulator of Firestore in a process of its own: Google's where FIRESTORE_EMULATOR_HOST names it, else the one from npm. */
import { startEmulator } from '../../test/helpers/firestore.js'

process.once('disconnect', () => process.exit(0))
const { host } = await startEmulator()
process.send?.(host)
