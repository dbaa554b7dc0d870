import { testCommands } from './console.js'

testCommands('docs/guides/platform-roles.md')
