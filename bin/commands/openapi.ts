/** `tenantry openapi`: the OpenAPI document of an API. */
import type { Command } from '../command.js'
import { documentsOfDocument } from '../api-documents.js'

export const openapi: Command = {
  summary: 'Prints the OpenAPI 3.1 document, which GET /doc answers.',
  usage: '[document]',
  details: 'Reads the database and changes nothing in it. With the embedded database only declared tables are known.',
  options: {},

  async run (call) {
    const { openApi } = await documentsOfDocument(call.document, call.env)
    call.print(openApi)
    return 0
  }
}
