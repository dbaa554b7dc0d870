/** The document of an API: loading, checking, and its types. */
export { checkConfig, environmentOf, isChecked, versionOf, withSections, type CheckOptions } from './check.js'
export type { Config, DatabaseConfig } from '../document/config.js'
export type { Env } from '../expressions/environment.js'
export { ConfigError, formatFault, type Fault } from '../schema/faults.js'
export { defineConfig, loadConfig, type LoadOptions } from './load.js'
export type { ConfigInput } from '../schema/root.js'
