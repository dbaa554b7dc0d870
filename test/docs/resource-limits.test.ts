import { testCommands } from './console.js'

testCommands('docs/guides/resource-limits.md')
