import { testCommands } from './console.js'

testCommands('docs/recipes/browser-app.md')
