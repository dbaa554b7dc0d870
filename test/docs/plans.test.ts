import { testCommands } from './console.js'

testCommands('docs/guides/plans.md')
