/** `npm run build`: what is published, as JavaScript and type declarations, in a fresh `dist`. */
import { spawnSync } from 'node:child_process'
import { chmod, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import manifest from '../package.json' with { type: 'json' }

const root = new URL('../', import.meta.url)
await rm(new URL('dist', root), { recursive: true, force: true })
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(1)
// npm does it when the package is installed; a working copy runs it from here.
for (const program of Object.values(manifest.bin)) await chmod(new URL(program, root), 0o755)
