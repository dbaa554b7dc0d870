import { testCommands } from './console.js'

testCommands('docs/guides/usage.md')
