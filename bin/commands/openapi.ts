/** `tenantry openapi`: the OpenAPI document of an API. */
import { documentsOfDocument } from '../api-documents.js'
import type { Command } from '../command.js'

export const openapi: Command = {
  summary: 'Print the OpenAPI 3.1 document of GET /doc.',
  usage: '[document]',
  details: 'Reads the database without changing it. With the embedded database only declared tables are included.',
  options: {},

  async run (call) {
    const { openApi } = await documentsOfDocument(call.document, call.env)
    call.print(openApi)
    return 0
  }
}
