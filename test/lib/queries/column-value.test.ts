import { test } from 'tap'
import { describeType, encoderOf, unfit } from '../../../lib/queries/column-value.js'
import { postgresDatabase } from '../../helpers/postgres.js'

const values: Record<string, { fit: string[], misfit: string[] }> = {
  int4range: { fit: ['[1,5)', ' (,7] ', 'empty', '(,)'], misfit: ['', '1', '1,5', '[1;5)', 'nothing'] },
  tstzrange: { fit: ['[2026-01-01T09:00:00Z,2026-01-01T10:00:00Z)', '["2026-01-01 09:00",infinity]'], misfit: ['2026-01-01', '[2026-01-01)'] },
  datemultirange: { fit: ['{}', '{[2026-01-01,2026-02-01), [2026-03-01,)}'], misfit: ['[2026-01-01,2026-02-01)', ''] },
  inet: { fit: ['10.0.0.1', '10.0.0.0/8', '10.0/16', '::1', 'fe80::1/64', '::ffff:10.0.0.1'], misfit: ['', 'localhost', '10.0.0.999', '10.0.0.1/x'] },
  cidr: { fit: ['10', '10.1.0.0/16', '2001:db8::/32'], misfit: ['host', '10.256/16'] }
}

test('ranges and addresses that PostgreSQL accepts pass, and others are rejected with their form', async (t) => {
  const { query } = await postgresDatabase(t)
  for (const [type, { fit, misfit }] of Object.entries(values)) {
    const encode = encoderOf({ type })
    for (const text of fit) {
      t.equal(encode(text), text, `${type} ${text}`)
      await query(`select '${text}'::${type}`)
    }
    for (const text of misfit) {
      t.equal(encode(text), unfit, `${type} ${JSON.stringify(text)}`)
      await t.rejects(query(`select '${text}'::${type}`))
    }
    t.match(describeType({ type }), /^an? .*, such as /)
  }
})
