/** `GET /system/info`, for platform administrators. */
import { definePlugin } from '../../lib/plugin/define.js'
import { list, nullable, text } from '../../lib/plugin/options.js'
import { systemRoutes } from './routes.js'

export interface SystemOptions {
  /** Identifies the configuration of this server. A function is called for each request. Default: none. */
  readonly configurationVersion?: string | (() => string) | null | undefined
  /** Groups of built-in endpoints that are off, so that other routes may have their paths. Default: none. */
  readonly off?: readonly string[] | undefined
}

export default definePlugin<SystemOptions>({
  name: 'system',
  routeDependencies: ['auth'],
  optional: ['database', 'cache', 'queue', 'usage'],
  options: { configurationVersion: nullable((value) => typeof value === 'function' ? undefined : text(value)), off: list },
  setup (_app, { configurationVersion = null, off = [] }) {
    const version = typeof configurationVersion === 'function' ? configurationVersion : () => configurationVersion
    return (group) => systemRoutes(group, version, new Set(off))
  }
})
