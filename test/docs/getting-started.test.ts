import { testCommands } from './console.js'

testCommands('docs/guides/getting-started.md')
