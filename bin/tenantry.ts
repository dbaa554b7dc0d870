#!/usr/bin/env node
/** The command `tenantry` (DESIGN 13). */
import { run } from './program.js'

process.exitCode = await run(process.argv.slice(2), process.env)
