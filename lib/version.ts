/** The version of this package. */
import { readFileSync } from 'node:fs'
import { packageRoot } from './package-root.js'

/** As in package.json: `1.2.3`. */
export const version: string = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')).version
