/** Options of the plugin config-routes: the document's sections of the same names. */
import type { Config, ConfigInput, Env } from '../../lib/configuration/index.js'
import type { ConnectorSet } from '../../lib/connectors/index.js'

export interface ConfigRoutesOptions extends
  Partial<
    Pick<ConfigInput, 'routes' | 'pagination' | 'cache' | 'functions' | 'tenancy' | 'workflows' | 'credentials' | 'customIntegrations'>
  > {
  /** A checked configuration, instead of the sections. */
  readonly config?: Config | undefined
  /** The configuration's compiled connectors. Default: compiled from the configuration. */
  readonly connectors?: ConnectorSet | undefined
  /** The values of `{{env.NAME}}`. Default: the process's environment. */
  readonly env?: Env | undefined
}
