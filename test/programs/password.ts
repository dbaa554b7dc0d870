/** Reads a password as `tenantry user create` does, and prints it in hexadecimal, which nothing takes for what was typed. */
import { readPassword } from '../../bin/password.js'

try {
  console.log(`read ${Buffer.from(await readPassword()).toString('hex')}`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
