import { testCommands } from './console.js'

testCommands('docs/guides/login.md')
