/** The version of this package. */
import { existsSync, readFileSync } from 'node:fs'

// Beside lib/ in a working copy, one level above dist/ in what is published.
const manifest = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url))

/** As in package.json: `1.2.3`. */
export const version: string = manifest === undefined ? 'unknown' : JSON.parse(readFileSync(manifest, 'utf8')).version
