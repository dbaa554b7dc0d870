/**
 * Slack's incoming webhooks (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks). The address is the
 * secret; the answer is `ok`.
 */
import type { ConnectorDefinition } from '../definition.js'
import { Type } from 'typebox'
import { Flag, Optional, Params, Text } from './params.js'

const further = {
  threadTs: Optional.Text('The message that it answers.', 40),
  unfurlLinks: Flag('Shows what links lead to.')
}
const furtherBody = { thread_ts: '{{params.threadTs}}', unfurl_links: '{{params.unfurlLinks}}' }

export const chat: ConnectorDefinition = {
  name: 'chat',
  aliases: ['slack'],
  baseUrl: '{{credentials.webhookUrl}}',
  wholeAddress: true,
  secrets: ['webhookUrl'],
  actions: {
    sendMessage: {
      method: 'POST',
      path: '',
      params: Params({ text: Text('The message, in mrkdwn.', 40_000), ...further }),
      body: { text: '{{params.text}}', ...furtherBody }
    },
    sendBlocks: {
      method: 'POST',
      path: '',
      params: Params({
        blocks: Type.Array(Type.Object({ type: Type.String({ minLength: 1, maxLength: 64 }) }, { additionalProperties: true }), {
          minItems: 1,
          maxItems: 50,
          description: 'The blocks, as Block Kit has them.'
        }),
        text: Optional.Text('What is shown where blocks are not, as in notifications.', 40_000),
        ...further
      }),
      body: { blocks: '{{params.blocks}}', text: '{{params.text}}', ...furtherBody }
    }
  }
}
