/** The built-in connectors, as data like a document's `customIntegrations`. */
import type { ConnectorDefinition } from '../definition.js'
import { chat } from './chat.js'
import { codehost } from './codehost.js'
import { email } from './email.js'
import { http } from './http.js'
import { issues } from './issues.js'
import { payment } from './payment.js'
import { payprov } from './payprov.js'
import { sms } from './sms.js'
import { webhook } from './webhook.js'

export const builtIn: readonly ConnectorDefinition[] = [payment, payprov, issues, codehost, email, chat, sms, webhook, http]
