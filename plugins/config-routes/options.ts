/** Options of the config-routes plugin: the document's sections of the same names. */
import type { Config, ConfigInput, Env } from '../../lib/config/index.js'
import type { ConnectorSet } from '../../lib/connectors/index.js'

/** The document's sections, as an app gives them. */
export interface ConfigRoutesOptions extends Pick<ConfigInput, 'routes' | 'pagination' | 'cache' | 'tenancy' | 'workflows' | 'credentials' | 'customIntegrations'> {
  /** What `{{env.NAME}}` reads. Default: the process's environment. */
  readonly env?: Env
}

/** The same after the check. */
export interface CheckedRoutesOptions extends Pick<Config, 'routes' | 'webhooks' | 'pagination' | 'cache' | 'tenancy' | 'workflows'> {
  /** Those of the document. */
  readonly connectors: ConnectorSet
  readonly env: Env
}
