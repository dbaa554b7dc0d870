#!/usr/bin/env node
/** `npm create tenantry my-api`: runs `tenantry init my-api`. */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const require = createRequire(import.meta.url)
const manifest = require.resolve('tenantry/package.json')
const program = join(dirname(manifest), require(manifest).bin.tenantry)
const { status } = spawnSync(process.execPath, [program, 'init', ...process.argv.slice(2)], { stdio: 'inherit' })
process.exit(status ?? 1)
