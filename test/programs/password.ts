/**
 * Reads passwords like `tenantry user create`, as many as its argument says, and prints them in hexadecimal, which differs from any echo of
 * the input.
 */
import { readPassword } from '../../bin/password.js'

for (let left = Number(process.argv[2]); left > 0; left--) {
  try {
    console.log(`read ${Buffer.from(await readPassword()).toString('hex')}`)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
  }
}
