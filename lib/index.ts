/** The public face of tenantry. Each built-in group is also a plugin: `tenantry/plugins/<name>`. */
export { createServer, type ServerOptions } from './server.js'
export {
  ConfigError, checkConfig, defineConfig, formatFault, loadConfig, type Config, type ConfigInput, type Env, type Fault
} from './configuration/index.js'
export { TenantryError, type ErrorBody } from './errors.js'
export type { Claims } from './expressions/types.js'
