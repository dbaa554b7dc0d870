/** `tenantry openapi`: the OpenAPI document of an API. */
import type { Command } from '../command.js'
import { environmentOf, withSections } from '../../lib/configuration/index.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

export const openapi: Command = {
  summary: 'Prints the OpenAPI 3.1 document, which GET /doc answers.',
  usage: '[document]',
  details: 'Reads the database and changes nothing in it. With the embedded database only declared tables are known.',
  options: {},

  async run (call) {
    const config = await loadDocument(call.document, call.env)
    if (config.plugins.openapi === false) throw new CommandError('the document turns the plugin "openapi" off')
    const { database } = config
    // A server may be using the folder of an embedded database. Its tables are all declared anyway.
    const unused = database.provider === 'embedded' ? { ...database, embedded: {} } : database
    const { createServer } = await import('../../lib/server.js')
    const app = createServer(withSections(config, { database: unused, migrate: 'manual' }), { env: environmentOf(config), logger: false })
    try {
      const { statusCode, body } = await app.inject('/doc')
      if (statusCode !== 200) throw new CommandError(`the server answered ${statusCode}`)
      call.print(body)
      return 0
    } finally {
      await app.close()
    }
  }
}
