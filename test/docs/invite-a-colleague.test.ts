import { testCommands } from './console.js'

testCommands('docs/recipes/invite-a-colleague.md')
