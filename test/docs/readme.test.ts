import { testCommands } from './console.js'

testCommands('README.md')
