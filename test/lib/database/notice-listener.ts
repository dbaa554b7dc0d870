/** A process that only listens for notifications. */
import { createNoticeConnection } from '../../../lib/database/notice-connection.js'

const connection = createNoticeConnection({
  client: { connectionString: process.env.DATABASE },
  channel: 'tenantry',
  ownChannel: 'tenantry_test',
  notify: async () => {
    throw new Error('there is no pool')
  },
  onPayload () {},
  onGap () {},
  log: { info () {}, warn: (_object, message) => console.log(message) }
})
await connection.open()
console.log('open')
