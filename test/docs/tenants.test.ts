import { testCommands } from './console.js'

testCommands('docs/guides/tenants.md')
