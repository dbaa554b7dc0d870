/** The `/migration` endpoints for platform administrators: missing changes as SQL, and their application. */
import { definePlugin } from '../../lib/plugin/define.js'
import { flag, text } from '../../lib/plugin/options.js'
import { migrationRoutes } from './routes.js'

export interface MigrationOptions {
  /** `GET /migration/quick-fix` is refused. Default: whether NODE_ENV is `production`. */
  readonly production?: boolean
  /** Security rules of Firestore for `GET /migration`. Default: none. */
  readonly firestoreRules?: string | undefined
}

export default definePlugin<MigrationOptions>({
  name: 'migration',
  dependencies: ['database'],
  routeDependencies: ['auth'],
  options: { production: flag, firestoreRules: text },
  setup (app, { production = process.env.NODE_ENV === 'production', firestoreRules }) {
    return (group) => migrationRoutes(group, app.engine.migration, production, firestoreRules)
  }
})
