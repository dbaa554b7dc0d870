/** `npm run build`: what is published, in a fresh `dist`: JavaScript, type declarations, and the embedded engine's prepared data. */
import { spawnSync } from 'node:child_process'
import { chmod, copyFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { prepareData } from '../lib/database/embedded-prepared.js'

const root = new URL('../', import.meta.url)
await rm(new URL('dist', root), { recursive: true, force: true })
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (status !== 0) process.exit(1)
const prepared = await prepareData()
await copyFile(prepared, new URL(`dist/lib/database/${basename(prepared)}`, root))
// npm does it when the package is installed; a working copy runs it from here.
for (const program of Object.values(manifest.bin)) await chmod(new URL(program, root), 0o755)
