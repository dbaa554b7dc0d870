import { testCommands } from './console.js'

testCommands('docs/recipes/public-form.md')
