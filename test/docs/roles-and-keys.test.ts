import { testCommands } from './console.js'

testCommands('docs/guides/roles-and-keys.md')
