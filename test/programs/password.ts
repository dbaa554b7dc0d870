/**
 * Reads passwords as `tenantry user create` does, as many as it is told, and prints them in hexadecimal, which nothing takes for
 * what was typed.
 */
import { readPassword } from '../../bin/password.js'

for (let left = Number(process.argv[2]); left > 0; left--) {
  try {
    console.log(`read ${Buffer.from(await readPassword()).toString('hex')}`)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
  }
}
