import { spawnSync } from 'node:child_process'
import t from 'tap'
import { testCommands } from './console.js'

if (spawnSync('oathtool', ['--version']).error === undefined) testCommands('docs/guides/mfa.md')
else t.plan(0, 'oathtool is missing: run "apt-get install oathtool"')
