/** All functions and methods of expressions. Others cannot be called. */
import type { Functions } from './operand.js'
import { bytesMethods, conversions } from './conversions.js'
import { stringMethods } from './strings.js'
import { timeFunctions, timeMethods } from './times.js'

/** `name(...)` */
export const functions: Functions = { ...conversions, ...timeFunctions }

/** `value.name(...)` */
export const methods: Functions = { ...stringMethods, ...bytesMethods, ...timeMethods, 'size/1': conversions['size/1']! }
