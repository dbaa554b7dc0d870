import { test } from 'tap'
import { PassThrough } from 'node:stream'
import { once } from 'node:events'
import pg from 'pg'
import { guardAnswers } from '../../../lib/database/answer-guard.js'
import { connectPostgres } from '../../../lib/database/postgres.js'
import { postgresDatabase } from '../../helpers/postgres.js'

test('what a listener of an answer throws ends its connection and not the process', async (t) => {
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

test('a statement whose answer cannot be read fails, and the next has another connection', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const { pool } = connectPostgres({ connectionString })
  t.teardown(() => pool.end())
  const client = await pool.connect()
  client.on('error', () => {})
  // pg's own reading of the answer throws, as it does where the answer is longer than a string can be.
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
