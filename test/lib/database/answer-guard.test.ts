import { test } from 'tap'
import { PassThrough } from 'node:stream'
import { once } from 'node:events'
import pg from 'pg'
import { guardAnswers } from '../../../lib/database/answer-guard.js'
import { connectPostgres } from '../../../lib/database/postgres.js'
import { postgresDatabase } from '../../helpers/postgres.js'

test('an error thrown by a response listener ends its connection, not the process', async (t) => {
  const stream = new PassThrough()
  const heard: string[] = []
  stream.on('data', (chunk) => {
    heard.push(String(chunk))
    if (heard.length === 2) throw new RangeError('Cannot create a string longer than 0x1fffffe8 characters')
  })
  guardAnswers(stream)
  const ended = once(stream, 'error')
  stream.write('one')
  stream.write('two')
  const [error] = await ended
  t.match(error, { message: /^Connection terminated/, cause: { name: 'RangeError' } })
  t.strictSame(heard, ['one', 'two'])
})

test('a statement with an unreadable response fails, and the next one gets another connection', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const { pool } = connectPostgres({ connectionString })
  t.teardown(() => pool.end())
  const client = await pool.connect()
  client.on('error', () => {})
  // pg's own parsing of the response throws, as it does if the response is longer than a string can be.
  const query = new pg.Query('select 1')
  Object.assign(query, {
    handleDataRow () {
      throw new RangeError('Cannot create a string longer than 0x1fffffe8 characters')
    }
  })
  const failed = once(query, 'error')
  client.query(query)
  t.match((await failed)[0], { message: /^Connection terminated/ })
  client.release(true)
  t.strictSame((await pool.query('select 2 as n')).rows, [{ n: 2 }])
})
